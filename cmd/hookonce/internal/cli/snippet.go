package cli

import (
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// snippetLine is a line of settings, and a comment about it, which may be "".
type snippetLine struct{ text, about string }

// String returns the line below its comment, in lines of at most 80 columns where words allow it.
func (l snippetLine) String() string {
	var b strings.Builder
	before := l.text[:len(l.text)-len(strings.TrimLeft(l.text, " #"))]
	if strings.HasSuffix(before, "  # ") { // a setting of the source that is a comment itself
		before = strings.TrimSuffix(before, "# ")
	}
	for _, line := range foldWords(l.about, 78-len(before)) {
		b.WriteString(before + "# " + line + "\n")
	}
	b.WriteString(l.text + "\n")
	return b.String()
}

// foldWords breaks a text between words into lines of at most width columns, if the words are short enough.
func foldWords(s string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		last := len(lines) - 1
		if last < 0 || text.StringWidthWithoutEscSequences(lines[last]+" "+word) > width {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}

// snippetLines returns settings to begin with for a source of a provider, as an entry below sources:.
// Required settings are set, optional ones are comments. Values that only the user knows are variables,
// because settings are refused if a variable is not set.
func snippetLines(f *providerFacts) []snippetLine {
	s := snippet{facts: f, name: string(f.Name)}
	s.add("  "+s.name+":", "")
	s.add("    provider: "+s.name, "")
	switch {
	case f.Name == provider.Token:
		s.addSecret("the secret, as it is sent")
		s.add("    token: {at: "+s.variable("at")+"}", "where the secret stands, such as header:X-Token or query:token")
	case len(f.Schemes) == 0:
		s.addOwnScheme()
	default:
		delivered := slices.ContainsFunc(f.Handshakes, func(h handshakeFacts) bool { return h.Arm })
		s.addScheme(&f.Schemes[0], delivered)
	}
	s.addParams()
	if f.Ack != nil && f.Ack.SignedAt != "" {
		s.add("    # ack_key: "+s.variable("ack_key"), "your private key, which signs the answers, or file:PATH")
	}
	if f.Event.ID == "" {
		s.addEvent()
	}
	return s.lines
}

// settingsOf returns the snippet of a provider as YAML.
func settingsOf(f *providerFacts) string {
	var b strings.Builder
	b.WriteString("sources:\n")
	for _, line := range snippetLines(f) {
		b.WriteString(line.String())
	}
	return b.String()
}

// snippet is a snippet that is being made.
type snippet struct {
	facts *providerFacts
	name  string
	lines []snippetLine
}

func (s *snippet) add(text, about string) { s.lines = append(s.lines, snippetLine{text, about}) }

func (s *snippet) addScheme(scheme *schemeFacts, delivered bool) {
	if scheme.Weak != "" {
		s.add("    scheme: "+scheme.ID, "weak: "+scheme.Weak)
	}
	key := "key: " + s.variable("key")
	switch kind, about, _ := strings.Cut(scheme.Secret, ": "); {
	case scheme.KeysFrom != "":
		s.add("    # "+key, "only if hookonce cannot fetch the provider's public keys")
	case kind == "key":
		s.add("    "+key, about+", or file:PATH")
	case kind == "secrets" && delivered:
		s.add("    # secrets: they come with the handshake, after: hookonce sources arm "+s.name, "")
	case kind == "secrets":
		s.addSecret(about)
	}
	if scheme.SignsURL {
		s.add("    url: "+s.variable("url"), "the public URL, which is signed, such as https://hooks.example.com/webhooks/"+s.name)
	}
}

func (s *snippet) addSecret(about string) { s.add("    secrets: ["+s.variable("secret")+"]", about) }

// variable returns a reference to an environment variable for one setting of the provider, in YAML.
func (s *snippet) variable(setting string) string { return variable(s.name, setting) }

// variable returns a reference to an environment variable for one setting of a provider, in YAML. That of a secret has the
// name that Stripe's documentation uses: STRIPE_WEBHOOK_SECRET.
func variable(name, setting string) string {
	if setting == "secret" {
		name, setting = strings.TrimSuffix(name, "-webhooks"), "webhook_secret"
	}
	return `"${` + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name+"_"+setting)) + `}"`
}

func (s *snippet) addOwnScheme() {
	s.addSecret("the signing secret")
	s.add("    signature:", "how the sender signs: take it from the sender's documentation")
	s.add("      header: "+s.variable("signature_header"), "the name of the header with the signature")
	s.add("      algorithm: sha256", "")
	s.add("      encoding: hex", "")
	s.add(`      content: "{body}"`, "")
}

// addParams adds the parameters of the first scheme and of the handshakes.
func (s *snippet) addParams() {
	var params []paramFacts
	if len(s.facts.Schemes) > 0 {
		params = s.facts.Schemes[0].Params
	}
	seen := make(map[string]bool)
	var needed, optional []snippetLine
	for _, p := range append(slices.Clone(params), s.facts.Params...) {
		if seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		line := snippetLine{p.Name + ": " + s.variable(p.Name), aboutParam(&p)}
		if p.Need == verify.NeedOptional {
			optional = append(optional, line)
		} else {
			needed = append(needed, line)
		}
	}
	before := "    #   "
	switch {
	case len(needed) > 0:
		s.add("    params:", "")
		before = "      # "
	case len(optional) > 0:
		s.add("    # params:", "")
	}
	for _, line := range needed {
		s.add("      "+line.text, line.about)
	}
	for _, line := range optional {
		s.add(before+line.text, line.about)
	}
}

// aboutParam returns the description of a parameter, with its values. A single sentence becomes a phrase,
// to stand behind a name or to be continued.
func aboutParam(p *paramFacts) string {
	about := p.About
	if !strings.Contains(about, ". ") {
		about = strings.TrimSuffix(about, ".")
		if first, _, _ := strings.Cut(about, " "); first != "" && strings.ToLower(first[1:]) == first[1:] {
			about = strings.ToLower(about[:1]) + about[1:]
		}
	}
	if slices.ContainsFunc(p.Values, func(value string) bool { return !strings.Contains(about, value) }) {
		about += "; one of " + strings.Join(p.Values, ", ")
	}
	return about
}

// addEvent adds a variable for event.id, with the unconfirmed location as a comment: nothing is guessed.
func (s *snippet) addEvent() {
	event, hint := &s.facts.Event, &s.facts.Hint
	place := "body:id or header:X-Id"
	if event.Batch != "" || hint.Batch != "" {
		place = "item:id"
	}
	about := "the location of the event id, such as " + place
	if hint.ID != "" {
		about = "the location of the event id: perhaps " + hint.ID + ", unconfirmed"
	}
	if event.Batch == "" && hint.Batch != "" {
		about += ", with batch: perhaps " + hint.Batch
	}
	about += "; look at a request that you received"
	s.add("    event: {id: "+s.variable("event_id")+"}", about)
}
