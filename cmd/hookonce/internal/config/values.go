package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/settingfile"
)

// loader reads one set of settings and collects its faults.
type loader struct {
	file string // "" if there is none
	dir  string // base of relative paths

	env      map[string]string
	used     map[string]bool // variables that the file names
	envFile  string          // the path that env_file names, as shown; "" for none
	fromFile map[string]bool // variables of that file

	checkPostgres func(url string) error                 // LoadOptions.CheckPostgres
	checkTLS      func(cert, key string) (string, error) // LoadOptions.CheckTLS

	references map[string]Named // Settings.Named

	places map[string]*node // of the parts of Settings.Engine, by their paths in a hookonce.FieldError
	broken map[string]bool  // sources whose scheme could not be read

	faults   []Fault
	warnings []Fault
}

func (l *loader) fault(n *node, format string, args ...any) {
	l.faults = append(l.faults, faultAt(n, fmt.Sprintf(format, args...), ""))
}

func (l *loader) faultHint(n *node, hint, format string, args ...any) {
	l.faults = append(l.faults, faultAt(n, fmt.Sprintf(format, args...), hint))
}

func (l *loader) warn(n *node, format string, args ...any) {
	l.warnings = append(l.warnings, faultAt(n, fmt.Sprintf(format, args...), ""))
}

func faultAt(n *node, message, hint string) Fault {
	return Fault{Line: n.line, Col: n.col, Path: n.path, Message: strings.Join(strings.Fields(message), " "), Hint: hint}
}

// wrong reports an error of another package about the value of n. The error's text may quote the
// value.
func (l *loader) wrong(n *node, err error) {
	if n.hidden {
		l.faultHint(n, "details are not shown, because they may quote a secret", "the value is not valid")
		return
	}
	l.fault(n, "%s", err)
}

// shown returns the value of n for messages: as written, without the values of variables. Never use
// it for a secret.
func (n *node) shown() string { return strconv.Quote(n.raw) }

// mapping gives access to the known keys of a node.
type mapping struct {
	l     *loader
	node  *node
	known []string
}

// mapping reads n, which may be nil, as a mapping, and reports unknown keys.
func (l *loader) mapping(n *node, known ...string) mapping {
	m := mapping{l: l, node: n, known: known}
	if n == nil || n.kind == kindNull {
		m.node = nil
		return m
	}
	if n.kind != kindMapping {
		l.faultHint(n, "keys: "+strings.Join(known, ", "), "this must be a mapping of keys, but is %s", n.kind)
		m.node = nil
		return m
	}
	for _, f := range n.fields {
		if !slices.Contains(known, f.key) {
			at := &node{path: joinPath(n.path, f.key), line: f.line, col: f.col}
			l.faultHint(at, say.DidYouMean(f.key, known), "unknown key")
		}
	}
	return m
}

// get returns the value of a key; nil if it is absent.
func (m mapping) get(key string) *node {
	if !slices.Contains(m.known, key) {
		panic("config: key " + key + " is read and not known")
	}
	if m.node == nil {
		return nil
	}
	for _, f := range m.node.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// named reads n as a mapping from names, reports invalid names, and calls read for every entry.
func (l *loader) named(n *node, what string, read func(name string, value *node)) {
	if n == nil || n.kind == kindNull {
		return
	}
	if n.kind != kindMapping {
		l.fault(n, "this must be a mapping of names to %ss, but is %s", what, n.kind)
		return
	}
	for _, f := range n.fields {
		at := &node{path: f.value.path, line: f.line, col: f.col}
		if what == "destination" && !validName(f.key) { // the library allows other names
			l.fault(at, badName)
		}
		read(f.key, f.value)
	}
}

const badName = "the name must begin with a-z or 0-9 and have at most 63 of a-z 0-9 _ -"

func validName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '_' || s[0] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// list returns the items of n, which may be nil.
func (l *loader) list(n *node) []*node {
	switch {
	case n == nil || n.kind == kindNull:
		return nil
	case n.kind != kindSequence:
		l.fault(n, "this must be a list, as [a, b], but is %s", n.kind)
		return nil
	}
	return n.items
}

// text returns the value of n with expanded variables, and whether it is usable. If it is not, text
// has reported a fault, unless n is nil.
func (l *loader) text(n *node) (string, bool) {
	switch {
	case n == nil:
		return "", false
	case n.kind == kindNull:
		l.fault(n, "there is no value; leave the key out or give it one")
		return "", false
	case n.kind != kindText:
		l.fault(n, "this must be a single value, but is %s", n.kind)
		return "", false
	case n.literal:
		return n.raw, true
	}
	text, ok := l.expand(n)
	return text, ok
}

// word returns the text of n, which must not be blank; "" if it is absent.
func (l *loader) word(n *node) string {
	text, ok := l.text(n)
	if ok && strings.TrimSpace(text) == "" {
		l.fault(n, "the value is empty")
		return ""
	}
	return text
}

// words returns the texts of a list that are not blank.
func (l *loader) words(n *node) []string {
	var out []string
	for _, item := range l.list(n) {
		if text := l.word(item); text != "" {
			out = append(out, text)
		}
		n.hidden = n.hidden || item.hidden
	}
	return out
}

// choice returns the value of n if it is one of allowed.
func (l *loader) choice(n *node, allowed ...string) string {
	text, ok := l.text(n)
	if !ok || slices.Contains(allowed, text) {
		return text
	}
	l.fault(n, "%s is unknown; use %s", n.shown(), strings.Join(allowed, " or "))
	return ""
}

func (l *loader) boolean(n *node) bool {
	return l.choice(n, "true", "false") == "true"
}

// count reads a whole number from least to most; 0 if it is absent.
func (l *loader) count(n *node, least, most int) int {
	text, ok := l.text(n)
	if !ok {
		return 0
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < least || v > most {
		l.fault(n, "%s must be a whole number from %d to %d", n.shown(), least, most)
		return 0
	}
	return v
}

// expand expands the variables in n.
func (l *loader) expand(n *node) (string, bool) {
	if !strings.Contains(n.raw, "${") {
		return n.raw, true
	}
	var out, around strings.Builder // around is the text between the variables, for strayBrace
	ok := true
	for rest := n.raw; rest != ""; {
		before, after, found := strings.Cut(rest, "${")
		if !found {
			out.WriteString(rest)
			around.WriteString(rest)
			break
		}
		if plain, escaped := strings.CutSuffix(before, "$"); escaped {
			out.WriteString(plain + "${")
			around.WriteString(plain + "${")
			rest = after
			continue
		}
		out.WriteString(before)
		around.WriteString(before)
		inside, behind, closed := strings.Cut(after, "}")
		if !closed {
			l.faultHint(n, "$${ stands for a literal ${", "there is a ${ without its }")
			return "", false
		}
		value, found := l.variable(n, inside)
		ok = ok && found
		out.WriteString(value)
		if strings.Contains(inside, ":-") {
			around.WriteByte(aDefault)
		}
		rest = behind
	}
	if ok && strayBrace(around.String()) {
		l.faultHint(n, "put the value into a variable of its own", "there is a } without its {; a default ends at the first }")
		return "", false
	}
	return out.String(), ok
}

// aDefault stands for a ${NAME:-default} in the argument of strayBrace.
const aDefault = 0

// strayBrace reports whether text has a } behind a default that no { in text opens. It is probably
// the rest of a default that holds a }.
func strayBrace(text string) bool {
	open, behind := 0, false
	for _, c := range []byte(text) {
		switch {
		case c == aDefault:
			behind = true
		case c == '{':
			open++
		case c == '}' && open > 0:
			open--
		case c == '}' && behind:
			return true
		}
	}
	return false
}

func (l *loader) variable(n *node, inside string) (string, bool) {
	n.hidden = true
	name, fallback, hasFallback := strings.Cut(inside, ":-")
	switch {
	case !validVariable(name):
		l.faultHint(n, "$${ stands for a literal ${", "${...} needs the name of a variable, as ${NAME} or ${NAME:-default}")
		return "", false
	case strings.Contains(fallback, "{"):
		// Otherwise ${A:-${B}} would be the text "${B}", which an attacker can guess.
		l.faultHint(n, "put the value into a variable of its own", "a default cannot hold another ${...}, nor a { or }")
		return "", false
	}
	l.used[name] = true
	value, set := l.env[name]
	switch {
	case value != "":
		return value, true
	case hasFallback:
		return fallback, true
	case !set:
		hint := "or give it a default: ${" + name + ":-...}"
		if l.envFile != "" {
			hint = "set it in " + l.envFile + ", " + hint
		}
		l.faultHint(n, hint, "the variable %s is not set", name)
		l.faults[len(l.faults)-1].Unset = name
	}
	return "", set
}

func validVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// namesVariable reports whether text is $NAME or ${NAME}, perhaps with a default, and nothing else. Such
// a secret is one that somebody meant to be replaced, as in the file of a service manager that replaces
// nothing, and an attacker can guess it.
func namesVariable(text string) bool {
	name, dollar := strings.CutPrefix(text, "$")
	if inside, braced := strings.CutPrefix(name, "{"); braced {
		name, dollar = strings.CutSuffix(inside, "}")
		name, _, _ = strings.Cut(name, ":-")
	}
	return dollar && validVariable(name)
}

// MaxSecretFile bounds the size of a file with a secret, in bytes.
const MaxSecretFile = 64 << 10

// secret reads a secret, a key or a token. A blank one is a fault. It never quotes the value.
func (l *loader) secret(n *node) (Secret, bool) { return l.value(n, true) }

// publicKey is secret for a value that everyone may read.
func (l *loader) publicKey(n *node) (Secret, bool) { return l.value(n, false) }

func (l *loader) value(n *node, secret bool) (Secret, bool) {
	text, ok := l.text(n)
	if !ok {
		return "", false
	}
	switch name, dollar := strings.CutPrefix(n.raw, "$"); {
	case dollar && !n.literal && validVariable(name):
		l.faultHint(n, "write it as ${...}, or put a secret that looks so into a file", "a variable needs braces: without them, this is the text itself")
		return "", false
	case namesVariable(text) && n.raw != "$"+text: // $${NAME} asks for this text
		l.faultHint(n, "give the variable its value, or put a secret that looks so into a file",
			"the value is the name of a variable, as $NAME or ${NAME}, which is not replaced here")
		return "", false
	}
	if path, isFile := strings.CutPrefix(text, "file:"); isFile {
		if text, ok = l.valueFile(n, path, secret); !ok {
			return "", false
		}
	}
	if strings.TrimSpace(text) == "" {
		l.fault(n, "it is empty")
		return "", false
	}
	return Secret(text), true
}

// resolve returns a path that holds for the process.
func (l *loader) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.dir, path)
}

func (l *loader) valueFile(n *node, path string, secret bool) (string, bool) {
	if path == "" {
		l.fault(n, "file: needs a path after it")
		return "", false
	}
	name := "the file that file: names"
	if !strings.Contains(n.raw, "${") && inFolder(path) {
		name = "the file " + path // otherwise it may be a secret with file: before it, or the value of a variable
	}
	file, err := settingfile.Read(l.resolve(path), MaxSecretFile)
	if err != nil {
		l.fault(n, "%s cannot be read: %s", name, err)
		return "", false
	}
	text := strings.TrimRight(string(file.Data), "\r\n")
	if strings.TrimSpace(text) == "" {
		l.fault(n, "the file that file: names is empty")
		return "", false
	}
	l.warnShared(n, file, "the file that file: names", secret)
	return text, true
}

// inFolder reports whether an absolute path begins with a folder that there is.
func inFolder(path string) bool {
	folder := filepath.Dir(path)
	for up := filepath.Dir(folder); filepath.IsAbs(path) && up != filepath.Dir(up); up = filepath.Dir(folder) {
		folder = up
	}
	info, err := os.Stat(folder)
	return filepath.IsAbs(path) && folder != filepath.Dir(folder) && err == nil && info.IsDir()
}

// warnShared warns of a file, the one that name describes, that every user of the machine can change, or read though
// it is secret.
func (l *loader) warnShared(n *node, file *settingfile.File, name string, secret bool) {
	if text := file.Warning(name, secret); text != "" {
		l.warn(n, "%s", text)
	}
}
