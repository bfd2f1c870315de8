package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/verify"
)

// snippet returns settings to begin with for a source of a provider. Required settings are set,
// optional ones are comments. Values that only the user knows are variables, because settings are
// refused if a variable is not set.
func snippet(f *providerFacts) string {
	var b strings.Builder
	name := string(f.Name)
	fmt.Fprintf(&b, "sources:\n  %s:\n    provider: %s\n", name, name)
	if len(f.Schemes) == 0 {
		writeOwnScheme(&b, name)
	} else {
		delivered := slices.ContainsFunc(f.Handshakes, func(h handshakeFacts) bool { return h.Arm })
		writeScheme(&b, name, &f.Schemes[0], delivered)
	}
	writeParams(&b, f)
	if f.Ack != nil && f.Ack.SignedAt != "" {
		fmt.Fprintf(&b, "    # ack_key: %s    # your private key, which signs the answers, or file:PATH\n", variable(name, "ack_key"))
	}
	if f.Event.ID == "" {
		writeEvent(&b, f)
	}
	return b.String()
}

func writeScheme(b *strings.Builder, name string, s *schemeFacts, delivered bool) {
	if s.Weak != "" {
		fmt.Fprintf(b, "    scheme: %s    # weak: %s\n", s.ID, s.Weak)
	}
	key := "key: " + variable(name, "key")
	switch kind, about, _ := strings.Cut(s.Secret, ": "); {
	case s.KeysFrom != "":
		fmt.Fprintf(b, "    # %s    # instead of fetching it\n", key)
	case kind == "key":
		fmt.Fprintf(b, "    %s    # %s, or file:PATH\n", key, about)
	case kind == "secrets" && delivered:
		fmt.Fprintf(b, "    # secrets: they come with the handshake, after: hookonce sources arm %s\n", name)
	case kind == "secrets":
		writeSecret(b, name, about)
	}
	if s.SignsURL {
		fmt.Fprintf(b, "    url: %s    # the public URL, which is signed, as https://hooks.example.com/webhooks/%s\n", variable(name, "url"), name)
	}
}

func writeSecret(b *strings.Builder, name, about string) {
	fmt.Fprintf(b, "    secrets: [%s]    # %s\n", variable(name, "secret"), about)
}

// variable returns a reference to an environment variable for one setting of a provider, in YAML.
func variable(name, what string) string {
	return `"${` + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name+"_"+what)) + `}"`
}

func writeOwnScheme(b *strings.Builder, name string) {
	writeSecret(b, name, "the signing secret")
	fmt.Fprintf(b, "    signature: {header: %s, algorithm: sha256, encoding: hex, content: \"{body}\"}    # as the sender's documentation says\n",
		variable(name, "signature_header"))
}

// writeParams writes the parameters of the first scheme and of the handshakes.
func writeParams(b *strings.Builder, f *providerFacts) {
	var params []paramFacts
	if len(f.Schemes) > 0 {
		params = f.Schemes[0].Params
	}
	seen := make(map[string]bool)
	var needed, optional []string
	for _, p := range append(append([]paramFacts{}, params...), f.Params...) {
		if seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		line := fmt.Sprintf("%s: %s    # %s", p.Name, variable(string(f.Name), p.Name), p.About)
		if len(p.Values) > 0 {
			line += "; one of " + strings.Join(p.Values, ", ")
		}
		if p.Need == verify.NeedOptional {
			optional = append(optional, line)
		} else {
			needed = append(needed, line)
		}
	}
	comment := "    #   "
	switch {
	case len(needed) > 0:
		b.WriteString("    params:\n")
		comment = "      # "
	case len(optional) > 0:
		b.WriteString("    # params:\n")
	}
	for _, line := range needed {
		b.WriteString("      " + line + "\n")
	}
	for _, line := range optional {
		b.WriteString(comment + line + "\n")
	}
}

// writeEvent writes a variable for event.id, with the unconfirmed location as a comment: nothing is
// guessed.
func writeEvent(b *strings.Builder, f *providerFacts) {
	place := "body:id or header:X-Id"
	if f.Event.Batch != "" || f.Hint.Batch != "" {
		place = "item:id"
	}
	about := "where the sender's event id stands, as " + place + ": look at what you receive"
	if f.Hint.ID != "" {
		about = "where the event id stands: said to be " + f.Hint.ID + ", unconfirmed, so look at what you receive"
	}
	if f.Event.Batch == "" && f.Hint.Batch != "" {
		about += "; then batch too, said to be " + f.Hint.Batch
	}
	fmt.Fprintf(b, "    event: {id: %s}    # %s\n", variable(string(f.Name), "event_id"), about)
}
