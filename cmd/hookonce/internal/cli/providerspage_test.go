package cli

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

var update = flag.Bool("update", false, "write docs/providers.md")

const providersIntro = `# Providers

<!-- Made from provider/catalog by: go test ./cmd/hookonce/internal/cli -run TestProvidersPage -update -->

hookonce knows these senders by name: ` + "`provider: NAME`" + ` in the settings, ` + "`provider.Name(\"NAME\")`" + ` in Go.
` + "`hookonce providers NAME`" + ` shows more facts about one, and settings to begin with. Any other sender that signs by HMAC
works as ` + "`hmac`" + ` ([how](sources.md#signature)), and one that sends a fixed secret as ` + "`token`" + ` or ` + "`basic`" + `
([how](sources.md#static-secrets)).

`

const providersLegend = `
- **Signs with**: the schemes; the first is the default. A scheme in *italics* is weak or checks nothing, so a source
  must choose it with ` + "`scheme`" + `.
- **Event id**: its location; of several alternatives, the first. *set it* means that no location is confirmed, so the
  source must set ` + "`event.id`" + `: hookonce does not guess. An unconfirmed location follows.
- **Batch**: one delivery may hold several events; each is claimed by its own id.
- **Handshake**: the provider checks or sets up the endpoint, and hookonce answers. *arm* means that the provider
  hands the secret over in the handshake; the source takes it only after ` + "`hookonce sources arm NAME`" + `.
  [More](sources.md#handshakes).
- **Retries**: how long the provider retries, if known. The default dedupe window is never shorter. *anew*: each attempt
  has a time and a signature of its own. *once*: all have those of the first, and the tolerance covers the retries.
  *undocumented*: if retries are refused as too old, raise ` + "`timestamp.tolerance`" + `. Otherwise no time is signed.
- **Set**: the settings that the source needs besides ` + "`secrets`" + `; those with ` + "`?`" + ` are optional. *key is fetched* means
  that hookonce gets the public key from the provider's own hosts over https; the setting ` + "`key`" + ` replaces it.
- **Known by**: the strongest evidence for the entry; ` + "`hookonce providers NAME`" + ` names its source. A listed package
  accepts the requests that hookonce signs, and refuses changed ones. If it signs too, hookonce accepts its requests.
  - *its SDK*: the provider's own package. Packages of others may follow it.
  - *a recorded request*: a genuine request verifies. *its published vector*: a signed example of the provider verifies.
  - *a third-party verifier*: a well-kept package of others agrees; it may share a mistake with hookonce.
  - *its documented procedure*: a general library agrees, used as the provider's documentation shows.
  - *documentation alone*: nothing has confirmed the entry. [Without an SDK](#without-an-sdk) gives the reason.

| name | provider | known by | signs with | event id | batch | handshake | retries | set | notes |
|---|---|---|---|---|---|---|---|---|---|
`

// TestProvidersPage checks that docs/providers.md shows the current catalog.
func TestProvidersPage(t *testing.T) {
	t.Parallel()
	var page, rows, long strings.Builder
	known := map[string]int{}
	reasons := map[string][]string{}
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		facts := factsOf(spec)
		notes := strings.Join(facts.Notes, " ")
		if len(strings.Fields(notes)) > maxNote {
			long.WriteString(wrapped("- `" + string(name) + "`: " + notes))
			notes = "[see below](#longer-notes)"
		}
		rows.WriteString(pageRow(facts, notes))
		known[facts.Evidence.By]++
		if r := facts.Evidence.Reason; r != "" {
			reasons[r] = append(reasons[r], "`"+string(name)+"`")
		}
	}
	page.WriteString(providersIntro + counts(known) + providersLegend + rows.String())
	page.WriteString("\n## Longer notes\n\n" + long.String())
	page.WriteString(withoutSDK(reasons))
	const path = "../../../../docs/providers.md"
	if *update {
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page.String(), string(got)); diff != "" {
		t.Errorf("docs/providers.md is out of date: go test ./cmd/hookonce/internal/cli -run TestProvidersPage -update (-want +got):\n%s", diff)
	}
}

// counts says how many providers are known in each way.
func counts(known map[string]int) string {
	var texts []string
	all := 0
	for _, by := range []string{
		provider.BySDK, provider.ByRequest, provider.ByVector, provider.ByVerifier, provider.ByProcedure, provider.ByDocumentation,
	} {
		if n := known[by]; n > 0 {
			text := strings.Replace(provider.Evidence{By: by}.String(), "its ", "their ", 1)
			texts = append(texts, fmt.Sprintf("**%d** by %s", n, text))
			all += n
		}
	}
	return strings.ReplaceAll(wrapped(fmt.Sprintf("How these %d providers are known: %s.", all, strings.Join(texts, ", "))), "\n  ", "\n")
}

// withoutSDK lists the providers that no SDK judges, by the reason; "" if there are none.
func withoutSDK(reasons map[string][]string) string {
	if len(reasons) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("\n## Without an SDK\n\nNo SDK of the provider judges these entries, for the reason given.\n\n")
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		text.WriteString(wrapped("- " + reason + ": " + strings.Join(reasons[reason], ", ")))
	}
	return text.String()
}

// wrapped returns an item of a list in lines of at most 118 columns.
func wrapped(item string) string {
	var text strings.Builder
	column := 0
	for i, word := range strings.Fields(item) {
		switch {
		case i == 0:
		case column+1+len(word) > 118:
			text.WriteString("\n  ")
			column = 2
		default:
			text.WriteString(" ")
			column++
		}
		text.WriteString(word)
		column += len(word)
	}
	return text.String() + "\n"
}

// maxNote is the number of words that fit into a cell of the table. Longer notes stand below it.
const maxNote = 25

func pageRow(f *providerFacts, notes string) string {
	title := f.Title
	if f.Docs != "" {
		title = "[" + f.Title + "](" + f.Docs + ")"
	}
	batch := ""
	if f.Event.Batch != "" {
		batch = "yes"
	}
	cells := []string{
		"`" + string(f.Name) + "`", title, pageEvidence(f), pageSchemes(f), pageID(f), batch, pageHandshakes(f), pageRetries(f), pageSet(f),
		notes,
	}
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// pageEvidence names packages only: other sources are long.
func pageEvidence(f *providerFacts) string {
	text := provider.Evidence(f.Evidence).String()
	names := strings.Join(regexp.MustCompile(`(npm|go):[^\s,]+@[^\s,]+`).FindAllString(f.Evidence.Source, -1), ", ")
	switch by := f.Evidence.By; {
	case names == "":
		return text
	case by == provider.ByRequest || by == provider.ByVector:
		return text + ", a third-party verifier (" + names + ")"
	}
	return text + " (" + names + ")"
}

func pageSchemes(f *providerFacts) string {
	var schemes []string
	for i := range f.Schemes {
		s := &f.Schemes[i]
		text := fmt.Sprintf("%s (%s)", s.ID, strings.TrimSpace(s.Family+" "+strings.TrimPrefix(s.Algorithm, s.Family+"-")))
		if s.Weak != "" || s.Family == string(verify.FamilyNone) {
			text = "*" + text + "*"
		}
		schemes = append(schemes, text)
	}
	return strings.Join(schemes, ", ")
}

func pageID(f *providerFacts) string {
	first, _, _ := strings.Cut(f.Event.ID, " | ")
	switch hint, _, _ := strings.Cut(f.Hint.ID, " | "); {
	case first != "":
		return "`" + first + "`"
	case hint != "":
		return "*set it*, perhaps `" + hint + "`"
	}
	return "*set it*"
}

// pageRetries tells how long a provider retries, and how it signs attempts.
func pageRetries(f *providerFacts) string {
	signed := map[string]string{provider.SignedAnew: "*anew*", provider.SignedOnce: "*once*", provider.SignedUndocumented: "*undocumented*"}[f.Retry.Signed]
	return strings.Trim(f.Retry.Window+", "+signed, ", ")
}

func pageHandshakes(f *providerFacts) string {
	var texts []string
	for _, h := range f.Handshakes {
		text := h.ID
		if h.Arm {
			text += " (*arm*)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// pageSet lists the settings that the default scheme needs.
func pageSet(f *providerFacts) string {
	switch {
	case f.Name == provider.Token:
		return "`token`"
	case len(f.Schemes) == 0:
		return "`signature`"
	}
	s := &f.Schemes[0]
	var set []string
	add := func(text string) { set = append(set, text) }
	if !s.Default {
		add("`scheme`")
	}
	if s.SignsURL {
		add("`url`")
	}
	switch {
	case s.KeysFrom != "":
		add("key is fetched")
	case strings.HasPrefix(s.Secret, "key"):
		add("`key`")
	}
	for _, p := range append(append([]paramFacts{}, s.Params...), f.Params...) {
		text := "`params." + p.Name + "`"
		if p.Need == verify.NeedOptional {
			text += "?"
		}
		add(text)
	}
	if f.Ack != nil && f.Ack.SignedAt != "" {
		add("`ack_key`?")
	}
	return strings.Join(set, ", ")
}
