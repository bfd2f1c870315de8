package config

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce"
)

// check reports the faults and warnings that the root package finds in cfg, each at its place in the
// document. It leaves out those that only follow from a value that could not be read.
func (l *loader) check(cfg *hookonce.Config) {
	unread := slices.DeleteFunc(slices.Clone(l.faults), func(f Fault) bool { return f.Message == badName })
	warnings, err := cfg.Check()
	eachError(err, func(err error) {
		var fault *hookonce.FieldError
		if !errors.As(err, &fault) {
			l.fault(&node{}, "%s", err)
		} else if at := l.find(fault.Path); !l.follows(fault.Path, at, unread) {
			l.faults = append(l.faults, l.placed(fault, at))
		}
	})
	for _, w := range warnings {
		if at := l.find(w.Path); !l.follows(w.Path, at, unread) {
			warning := l.placed(w, at)
			warning.AtStart, warning.InStatus = w.Logged, inStatus(w.Path)
			l.warnings = append(l.warnings, warning)
		}
	}
}

// checkRoutes warns of sources whose events nothing takes, if there are destinations: a route was forgotten.
func (l *loader) checkRoutes(cfg *hookonce.Config) {
	if len(cfg.Destinations) == 0 || len(l.faults) > 0 {
		return
	}
	for i := range cfg.Sources {
		s := &cfg.Sources[i]
		taken := s.Consume != "" || slices.ContainsFunc(cfg.Routes, func(r hookonce.Route) bool {
			return len(r.Sources) == 0 || slices.Contains(r.Sources, s.Name)
		})
		if !taken {
			warning := faultAt(l.find("sources."+s.Name), "no route takes its events: they are stored, and reach no destination", "add a route for it")
			warning.AtStart = true
			l.warnings = append(l.warnings, warning)
		}
	}
}

// eachError calls do with every error that err joins.
func eachError(err error, do func(error)) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			do(e)
		}
	} else if err != nil {
		do(err)
	}
}

// inStatus reports whether the status of a source shows a warning, too: that it is unsigned, and that its window
// is shorter than its provider retries.
func inStatus(path string) bool {
	source, ok := strings.CutPrefix(path, "sources.")
	return ok && (!strings.Contains(source, ".") || strings.HasSuffix(source, ".dedupe_window"))
}

// placed returns fault at the node at. Without a remedy, that for a missing key is how to write it.
func (l *loader) placed(fault *hookonce.FieldError, at *node) Fault {
	message, hint := fault.Problem+" "+fault.Detail, cmp.Or(fault.Hint, l.example(fault.Path, at))
	if at.hidden && fault.Detail != "" {
		switch {
		case fault.Problem == "":
			message, hint = "the value is not valid", cmp.Or(hint, "details are not shown, because they may quote a secret")
		case at.literal:
			message = fault.Problem
		default:
			message = fault.Problem + " " + at.shown()
		}
	}
	return faultAt(at, message, hint)
}

// example returns how to write the missing key at the end of path, or "".
func (l *loader) example(path string, at *node) string {
	if !at.missing {
		return ""
	}
	source, key, _ := strings.Cut(strings.TrimPrefix(path, "sources."), ".")
	switch key {
	case "signature":
		return `as signature: {header: X-Signature, algorithm: sha256, encoding: hex, content: "{body}"}`
	case "token":
		return `as token: {at: "header:X-Token"}`
	case "timestamp.at":
		return `as timestamp: {at: "header:X-Timestamp"}`
	case "key":
		return "as key: file:/path/to/key.pem"
	case "secrets":
		return `as secrets: ["${` + strings.ToUpper(strings.ReplaceAll(source, "-", "_")) + `_WEBHOOK_SECRET}"]`
	}
	return ""
}

// ofScheme are the settings of a source that cannot be judged without its scheme.
var ofScheme = []string{"signature", "timestamp", "token", "secrets", "key", "url", "replay_guard"}

// follows reports whether a finding at path, which is the node at, only follows from the faults unread.
func (l *loader) follows(path string, at *node, unread []Fault) bool {
	if setting, ok := strings.CutPrefix(path, "sources."); ok {
		source, key, _ := strings.Cut(setting, ".")
		if l.broken[source] && slices.Contains(ofScheme, key[:strings.IndexAny(key+".", ".[")]) {
			return true
		}
	}
	return slices.ContainsFunc(unread, func(f Fault) bool {
		rest, beneath := strings.CutPrefix(at.path, f.Path)
		return f.Path != "" && beneath && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// find returns the node of a path of hookonce.FieldError. If there is none, it is marked as missing and stands
// at the nearest node around it.
func (l *loader) find(path string) *node {
	base := path
	for l.places[base] == nil {
		cut := strings.LastIndexAny(base, ".[")
		if cut < 0 {
			return &node{path: path, missing: true}
		}
		base = base[:cut]
	}
	n, rest := l.places[base], path[len(base):]
	for rest != "" {
		end := strings.IndexAny(rest[1:], ".[") + 1
		if end == 0 {
			end = len(rest)
		}
		next := n.part(rest[:end])
		if next == nil {
			return &node{path: n.path + rest, line: n.line, col: n.col, missing: true}
		}
		n, rest = next, rest[end:]
	}
	return n
}

// part returns the value of ".key" in a mapping or of "[number]" in a list; nil if there is none.
func (n *node) part(name string) *node {
	if key, ok := strings.CutPrefix(name, "."); ok {
		return n.child(strings.TrimPrefix(key, "signature_")) // the root's name for signature.keys
	}
	i, err := strconv.Atoi(strings.Trim(name, "[]"))
	if err != nil || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}
