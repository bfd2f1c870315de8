package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// providerRow is the shape of --json for one provider of the list.
type providerRow struct {
	Name    provider.Name `json:"name"`
	Title   string        `json:"title"`
	Schemes []string      `json:"schemes"`
	ID      string        `json:"id"`       // the location of the event id, confirmed or not
	IDKnown bool          `json:"id_known"` // otherwise the source must set event.id
	Batch   bool          `json:"batch"`    // one delivery may hold several events
	KnownBy string        `json:"known_by"` // see provider.Evidence; "" for hmac, token, basic and none
}

func (p *program) providersCommand() *cobra.Command {
	var asJSON bool
	var search string
	cmd := &cobra.Command{
		Use:   "providers [NAME]",
		Short: "List the known providers, or show the facts about one",
		Long: "List the known providers, or show the facts about one: how it signs, where its\n" +
			"event id stands, its handshake, how long it retries, and settings to begin with.",
		Example: "  hookonce providers\n  hookonce providers stripe\n  hookonce providers --search 'sign ed25519'",
		Args:    atMostOne("NAME"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&search, "search", "", "list only the providers with all these `WORDS` in their name, title, schemes, event id or notes")
	cmd.ValidArgsFunction = cobra.FixedCompletions(completions(), cobra.ShellCompDirectiveNoFileComp)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return p.listProviders(strings.Fields(search), asJSON)
		}
		if search != "" {
			return newUsageError(cmd, errors.New("--search does not apply to one provider"))
		}
		spec, err := provider.Lookup(provider.Name(args[0]))
		if err != nil {
			return noProvider(args[0], err)
		}
		facts := factsOf(spec)
		if asJSON {
			return writeJSON(p.stdout, facts)
		}
		printProvider(p.stdout, facts)
		return nil
	}
	return cmd
}

// anySender tells people how a sender that is not in the catalog works.
const anySender = "any HMAC sender works as hmac, one that sends a fixed secret as token or basic"

func completions() []string {
	var names []string
	for _, name := range provider.Names() {
		names = append(names, string(name))
	}
	return names
}

// noProvider returns the error for an unknown provider. If no name is similar, the error of a
// lookup lists all of them, which is too long for one line.
func noProvider(name string, err error) error {
	if !strings.Contains(err.Error(), "did you mean") {
		err = fmt.Errorf("unknown provider %q; %s", name, anySender)
	}
	return app.Errorf("%w", &notFoundError{err}).Try("hookonce providers")
}

// notFoundError makes an error match driver.ErrNotFound.
type notFoundError struct{ error }

func (e *notFoundError) Is(target error) bool { return target == driver.ErrNotFound }

func (p *program) listProviders(words []string, asJSON bool) error {
	rows, err := providerRows(words)
	if err != nil {
		return err
	}
	if !asJSON && len(rows) == 0 {
		fmt.Fprintf(p.stderr, "No provider matches: %s.\n", anySender)
		return nil
	}
	if asJSON {
		return writeJSON(p.stdout, struct {
			Providers []providerRow `json:"providers"`
		}{rows})
	}
	t := newTable(p.stdout, []narrowing{
		{"EVENT ID", 34}, {"SCHEMES", 20}, {"TITLE", 20}, {"BATCHES", out}, {"EVENT ID", 16}, {"TITLE", 8}, {"SCHEMES", 8},
	}, "NAME", "TITLE", "SCHEMES", "BATCHES", "EVENT ID")
	for i := range rows {
		r := &rows[i]
		id, batch := r.ID, "-"
		switch {
		case r.IDKnown:
		case r.ID != "":
			id = "set event.id; perhaps " + r.ID
		default:
			id = "set event.id"
		}
		if r.Batch {
			batch = "yes"
		}
		t.row(string(r.Name), r.Title, briefly(r.Schemes), batch, briefly(strings.Split(id, " | ")))
	}
	t.Flush()
	return nil
}

// briefly returns the first of several texts, and how many more there are.
func briefly(all []string) string {
	switch len(all) {
	case 0:
		return "-"
	case 1:
		return all[0]
	}
	return fmt.Sprintf("%s +%d", all[0], len(all)-1)
}

// providerRows returns the providers that match all words.
func providerRows(words []string) ([]providerRow, error) {
	rows := []providerRow{}
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			return nil, err
		}
		row := providerRow{
			Name: name, Title: spec.Title, Schemes: []string{},
			ID: spec.Event.ID, IDKnown: spec.Event.ID != "", Batch: spec.Event.Batch != "",
			KnownBy: spec.Evidence.By,
		}
		if !row.IDKnown {
			row.ID = spec.Hint.ID
		}
		for i := range spec.Schemes {
			row.Schemes = append(row.Schemes, spec.Schemes[i].ID)
		}
		if matchesAll(&row, spec, words) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// matchesAll reports whether each word is in the facts of the provider.
func matchesAll(row *providerRow, spec *provider.Spec, words []string) bool {
	texts := append([]string{string(row.Name), row.Title, row.ID, spec.HintNote, spec.Docs}, row.Schemes...)
	for i := range spec.Schemes {
		texts = append(texts, string(spec.Schemes[i].Family), algorithm(&spec.Schemes[i]))
	}
	all := strings.ToLower(strings.Join(append(texts, spec.Notes...), "\n"))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(all, strings.ToLower(word)) })
}

// signedAttempts says which time the attempts of a provider carry, and where that is known from.
func signedAttempts(r retryFacts) string {
	switch r.Signed {
	case provider.SignedAnew:
		return "anew, each with a time of its own (" + r.SignedSource + ")"
	case provider.SignedOnce:
		return "once: later attempts carry the first time, which timestamp.tolerance covers (" + r.SignedSource + ")"
	case provider.SignedUndocumented:
		return "not documented (" + r.SignedSource + "): if retries are refused as too old, raise timestamp.tolerance"
	}
	return ""
}

func printProvider(w io.Writer, f *providerFacts) {
	t := newFacts(w)
	line := func(name, value string) {
		if value != "" {
			t.row(name+":", value)
		}
	}
	line("Provider", fmt.Sprintf("%s (%s)", f.Title, f.Name))
	line("Docs", f.Docs)
	line("Known by", f.Evidence.knownBy())
	line("No SDK", f.Evidence.Reason)
	for _, field := range []struct{ name, known, hint string }{
		{"Event id", f.Event.ID, f.Hint.ID},
		{"Type", f.Event.Type, f.Hint.Type},
		{"Time", f.Event.Time, f.Hint.Time},
		{"Batch", f.Event.Batch, f.Hint.Batch},
		{"Document", f.Event.Document, f.Hint.Document},
	} {
		switch {
		case field.known != "":
			line(field.name, field.known)
		case field.hint != "":
			line(field.name, field.hint+" (unconfirmed: the source must set it)")
		case field.name == "Event id":
			line(field.name, "unknown: the source must set event.id")
		}
	}
	line("About the id", f.HintNote)
	line("Retries for", f.Retry.Window)
	line("Answer timeout", f.Retry.Timeout)
	line("About retries", f.Retry.Note)
	line("Attempts are signed", signedAttempts(f.Retry))
	if f.Reconcile.Lists {
		line("Reconcile", f.Reconcile.Note)
		line("Listed for", f.Reconcile.Keeps)
		line("List known by", f.Reconcile.Source)
		for _, param := range f.Reconcile.Params {
			line("reconcile.params."+param.Name, param.About)
		}
	} else {
		line("Reconcile", "no: "+f.Reconcile.Note)
	}
	if f.MaxBody > 0 {
		line("Largest body", strconv.FormatInt(f.MaxBody, 10)+" bytes")
	}
	if f.Ack != nil {
		line("Expects", fmt.Sprintf("%d %s %q", f.Ack.Status, f.Ack.ContentType, f.Ack.Body))
		if f.Ack.SignedAt != "" {
			line("Answer is signed", "with ack_key, at "+f.Ack.SignedAt)
			line("Without ack_key", f.Ack.Without)
		}
	}
	for _, note := range f.Notes {
		line("Note", note)
	}
	for i := range f.Schemes {
		printScheme(t, &f.Schemes[i])
	}
	printHandshakes(t, f)
	t.Flush()
	fmt.Fprintf(w, "\n%s", f.Settings)
}

func printScheme(t *columns, s *schemeFacts) {
	line := func(name, value string) {
		if value != "" {
			t.row("  "+name+":", value)
		}
	}
	title := s.ID
	if s.Default {
		title += " (default)"
	}
	t.row("")
	t.row("Scheme "+title+":", strings.TrimSpace(s.Family+" "+s.Algorithm))
	line("Signature", s.At)
	line("Signs", s.Content)
	line("Does not sign", s.Partial)
	line("Tolerance", s.Tolerance)
	line("Set", s.Secret)
	line("Keys from", s.KeysFrom)
	if s.SignsURL {
		line("Set", "url: the public URL, which is signed")
	}
	printParams(t, s.Params)
	line("Weak", s.Weak)
}

func printParams(t *columns, params []paramFacts) {
	for _, param := range params {
		about := aboutParam(&param)
		switch param.Need {
		case verify.NeedOptional:
			about += " (optional)"
		case needKeys:
			about += " (or set key)"
		}
		t.row("  Param "+param.Name+":", about)
	}
}

func printHandshakes(t *columns, f *providerFacts) {
	if len(f.Handshakes) == 0 {
		return
	}
	t.row("")
	for _, h := range f.Handshakes {
		t.row("Handshake "+h.ID+":", h.Method+" "+h.About)
		if h.Arm {
			t.row("", "first: hookonce sources arm NAME")
		}
	}
	printParams(t, f.Params)
}
