package config

import (
	"strings"

	"github.com/hookonce/hookonce/provider"
)

// Flags are the settings from flags; "" and nil mean not given.
//
// Sources are NAME=PROVIDER:SECRET. The secret is everything after the first colon, so it may hold
// ':' and '='; file:/path works. It is left out if keys are fetched from the provider, or if the
// provider hands the secret over. NAME=none is an unsigned source with the event id at body:id. It
// replaces a source of the file with the same name.
//
// Forwards are NAME=URL. If NAME is a configured source, of the file or of a flag, the URL gets the
// events of that source. Otherwise NAME is the name of a new destination, which gets the events of
// all sources.
type Flags struct {
	Database    string // --database
	Listen      string // --listen
	AdminListen string // --admin-listen
	Sources     []string
	Forwards    []string
}

// flagSources turns --source flags into nodes like those of the key sources.
func (l *loader) flagSources(flags []string) []field {
	var fields []field
	seen := make(map[string]bool)
	for _, text := range flags {
		name, value, at := l.nameAndValue("--source", text, "NAME=PROVIDER:SECRET")
		if at == nil {
			continue
		}
		if seen[name] {
			l.fault(at, "the source is given twice")
			continue
		}
		seen[name] = true
		if source := l.flagSource(at, value); source != nil {
			fields = append(fields, field{key: name, value: source})
		}
	}
	return fields
}

// nameAndValue splits NAME=VALUE, and returns the node for faults; nil if text has another form.
func (l *loader) nameAndValue(flag, text, form string) (name, value string, at *node) {
	name, value, _ = strings.Cut(text, "=")
	if value == "" || !validName(name) {
		// Not quoted: it may hold a secret.
		l.fault(&node{path: flag}, "this is not %s; a name has a-z 0-9 _ -", form)
		return "", "", nil
	}
	return name, value, &node{path: flag + " " + name}
}

func (l *loader) flagSource(at *node, value string) *node {
	providerName, secret, hasSecret := strings.Cut(value, ":")
	text := func(s string) *node {
		return &node{kind: kindText, path: at.path, raw: s, literal: true, hidden: true}
	}
	source := &node{kind: kindMapping, path: at.path, fields: []field{{key: "provider", value: text(providerName)}}}
	switch provider.Name(providerName) {
	case provider.HMAC:
		l.faultHint(at, "write it into a settings file", "a source of provider hmac must say how it signs, which a flag cannot")
		return nil
	case provider.Token:
		l.faultHint(at, "write it into a settings file", "a source of provider token must say where its secret stands, which a flag cannot")
		return nil
	case provider.None:
		if hasSecret && secret != "" {
			l.fault(at, "provider none takes no secret")
			return nil
		}
		event := &node{kind: kindMapping, path: at.path, fields: []field{{key: "id", value: text("body:id")}}}
		source.fields = append(source.fields, field{key: "event", value: event})
		return source
	}
	if scheme, err := defaultless(provider.Name(providerName)); err != nil {
		l.faultHint(at, "a flag cannot: write the source into a settings file, with scheme: "+scheme, "%s", err)
		return nil
	}
	if !hasSecret {
		if !secretless(provider.Name(providerName)) {
			l.fault(at, "there is no secret; write it as NAME=PROVIDER:SECRET")
			return nil
		}
		return source
	}
	secrets := &node{kind: kindSequence, path: at.path, items: []*node{text(secret)}}
	source.fields = append(source.fields, field{key: "secrets", value: secrets})
	return source
}

// defaultless returns an error if a source of that provider must name its scheme, and the first
// scheme that it can name.
func defaultless(name provider.Name) (string, error) {
	spec, err := provider.Lookup(name)
	if err != nil || len(spec.Schemes) == 0 {
		return "", nil // reported elsewhere
	}
	_, err = spec.ChooseScheme("")
	return spec.Schemes[0].ID, err
}

// secretless reports whether a source of that provider needs no secret: its keys can be fetched, or
// the provider hands the secret over later.
func secretless(name provider.Name) bool {
	spec, err := provider.Lookup(name)
	if err != nil {
		return false
	}
	scheme, err := spec.ChooseScheme("")
	return err == nil && (scheme.Keys != nil || spec.DeliversSecret())
}
