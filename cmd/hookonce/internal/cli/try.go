package cli

import (
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// commandLine is a command for pasting, in parts that stay on one line: the name with its argument, or a
// flag with its value.
type commandLine []string

func (c commandLine) String() string { return strings.Join(c, " ") }

// folded returns the command as lines that end before column width, if its parts are short enough. It
// begins at column at; its further lines are indented by two more.
func (c commandLine) folded(width, at int) string {
	var b strings.Builder
	column := at
	for i, part := range c {
		n := text.StringWidthWithoutEscSequences(part)
		switch {
		case i == 0:
		case column+1+n+len(` \`) <= width, column+1+n <= width && i == len(c)-1:
			b.WriteString(" ")
			column++
		default:
			b.WriteString(" \\\n" + strings.Repeat(" ", at+2))
			column = at + 2
		}
		b.WriteString(part)
		column += n
	}
	return b.String()
}

// sendCommand returns the command that sends an event to a source at base, as its provider would. A
// secret stands in it as the variable or the file that the settings name, and as SECRET if they hold
// the secret itself. It returns nil for a source whose provider signs with a private key, or hands its
// secret over later.
func sendCommand(settings *config.Settings, s *hookonce.Source, base string) commandLine {
	scheme, spec := schemeOf(s)
	named := settings.Named[s.Name]
	if spec == nil || publicKey(&scheme) || scheme.Family != verify.FamilyNone && s.Secrets == nil && named.Secret == "" {
		return nil
	}
	command := commandLine{"hookonce send " + word(webhookURL(base, s.Name)), "--provider " + string(s.Provider)}
	add := func(flag, value string) { command = append(command, flag+" "+value) }
	if s.Scheme != "" {
		add("--scheme", word(s.Scheme))
	}
	if s.Signature != nil {
		add("--signature", signatureWord(s.Signature, &named))
	}
	if scheme.Family != verify.FamilyNone {
		add("--secret", shell(named.Secret, "SECRET"))
	}
	for _, param := range scheme.Params {
		if s.Params[param.Name] != "" {
			add("--param", word(param.Name)+"="+shell(named.Params[param.Name], "VALUE"))
		}
	}
	if s.URL != "" || named.URL != "" {
		add("--url", shell(named.URL, word(s.URL)))
	}
	if s.Event.ID != "" || named.EventID != "" {
		add("--event", "id="+shell(named.EventID, word(s.Event.ID)))
	}
	for _, field := range [][2]string{
		{"type", s.Event.Type}, {"time", s.Event.Time}, {"batch", s.Event.Batch}, {"document", s.Event.Document},
	} {
		if field[1] != "" {
			add("--event", word(field[0]+"="+field[1]))
		}
	}
	if eventType := routedType(settings, s); eventType != "" && s.Event.Or(spec.Event).Type != "" {
		add("--type", word(eventType))
	}
	return command
}

// signatureWord returns the value of --signature for a scheme of the settings, as a word for a shell.
func signatureWord(scheme *verify.Scheme, named *config.Named) string {
	const header = "HEADER"
	of, replaced, by := *scheme, header, named.SignatureHeader
	of.Header = header
	if scheme.Family == verify.FamilyToken {
		replaced, by = "header:"+header, named.TokenAt
		of.At = ""
	}
	if !strings.HasPrefix(by, "${") {
		return word(signatureJSON(scheme))
	}
	return strings.Replace(word(signatureJSON(&of)), replaced, `'`+shell(by, "")+`'`, 1)
}

// schemeOf returns the scheme of a source and the entry of its provider. The entry is nil if the
// settings of the source are wrong.
func schemeOf(s *hookonce.Source) (verify.Scheme, *provider.Spec) {
	spec, err := provider.Lookup(s.Provider)
	if err != nil {
		return verify.Scheme{}, nil
	}
	if s.Signature != nil {
		return *s.Signature, spec
	}
	scheme, err := spec.ChooseScheme(s.Scheme)
	if err != nil {
		return verify.Scheme{}, nil
	}
	return scheme, spec
}

func unsigned(s *hookonce.Source) bool {
	scheme, _ := schemeOf(s)
	return scheme.Family == verify.FamilyNone
}

// routedType returns a type of event that a route takes from s, or "" if all types will do.
func routedType(settings *config.Settings, s *hookonce.Source) string {
	for i := range settings.Engine.Routes {
		r := &settings.Engine.Routes[i]
		if !takesFrom(r, s) {
			continue
		}
		if len(r.Types) == 0 {
			return ""
		}
		if at := slices.IndexFunc(r.Types, func(t string) bool { return !strings.Contains(t, "*") }); at >= 0 {
			return r.Types[at]
		}
		return strings.ReplaceAll(r.Types[0], "*", "test")
	}
	return ""
}

// shell returns a value of the settings, in the form of config.Named, as a word for a shell; otherwise
// if it is "".
func shell(named, otherwise string) string {
	switch name, isVariable := strings.CutPrefix(named, "${"); {
	case named == "":
		return otherwise
	case isVariable:
		return `"$` + strings.TrimSuffix(name, "}") + `"`
	}
	return word(named)
}
