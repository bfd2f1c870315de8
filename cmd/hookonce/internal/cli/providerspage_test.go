package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

var update = flag.Bool("update", false, "write docs/providers.md")

const providersIntro = `# Providers

<!-- Made from provider/catalog by: go test ./cmd/hookonce/internal/cli -run TestProvidersPage -update -->

Every sender that hookonce knows by name: ` + "`provider: NAME`" + ` in the settings, ` + "`provider.Name(\"NAME\")`" + ` in Go.
` + "`hookonce providers NAME`" + ` tells more of one, with settings to begin with. Any other sender that signs by HMAC works as
` + "`hmac`" + ` ([how](sources.md#signature)).

- **Signs with**: the schemes; the first is the default. One in *italics* is weak or checks nothing, and is used only with
  ` + "`scheme`" + `.
- **Event id**: where it stands (of several alternatives the first). *set it* means that none is known for sure, so that the
  source must say ` + "`event.id`" + `: nothing is guessed. What is said of it, unconfirmed, stands behind that.
- **Batch**: one delivery may hold several events; each is claimed by its own id.
- **Handshake**: how the endpoint is checked or set up, which is answered. *arm* means that the secret comes with it, and is taken
  only after ` + "`hookonce sources arm NAME`" + `. [More](sources.md#handshakes).
- **Retries**: for how long, as far as it is known. A dedupe window is never shorter by default.
- **Set**: what the source needs besides ` + "`secrets`" + `. A **key** that is fetched comes from the provider's own hosts over https, and
  can be set instead.

| name | provider | signs with | event id | batch | handshake | retries | set | notes |
|---|---|---|---|---|---|---|---|---|
`

// docs/providers.md is made of the catalog as it is.
func TestProvidersPage(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString(providersIntro)
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		page.WriteString(pageRow(factsOf(spec)))
	}
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
		t.Errorf("docs/providers.md is not up to date: go test ./cmd/hookonce/internal/cli -run TestProvidersPage -update (-want +got):\n%s", diff)
	}
}

func pageRow(f *providerFacts) string {
	title := f.Title
	if f.Docs != "" {
		title = "[" + f.Title + "](" + f.Docs + ")"
	}
	batch := ""
	if f.Event.Batch != "" {
		batch = "yes"
	}
	cells := []string{
		"`" + string(f.Name) + "`", title, pageSchemes(f), pageID(f), batch, pageHandshakes(f), f.Retry.Window, pageSet(f),
		strings.Join(f.Notes, " "),
	}
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
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

// pageSet tells what the default scheme needs.
func pageSet(f *providerFacts) string {
	if len(f.Schemes) == 0 {
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
