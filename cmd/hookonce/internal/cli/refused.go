package cli

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/tell"
)

// refusedFilters are the filters of refused list.
var refusedFilters = slices.Concat(refusedGroupFilters, pageFlags)

var refusedGroupFilters = []filterFlag{
	{"source", "only requests to this `SOURCE`"},
	{"reason", "only requests that were refused for this `REASON`, such as signature_wrong"},
	{"remote", "only requests from this `ADDRESS`"},
	sinceFilter, untilFilter,
}

func (p *program) refusedCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "refused", Short: "List or show requests that were refused, and why"}
	cmd.AddCommand(p.refusedListCommand(), p.refusedShowCommand())
	return cmd
}

var refusedList = &list[hookadmin.RefusedPage, hookadmin.RefusedRequest]{
	things: "refused requests", doing: "listing refused requests",
	filters: refusedFilters, parse: checkedBy(hookadmin.ParseRefusedFilter), ask: (*adminclient.Client).Refused,
	rows: func(page *hookadmin.RefusedPage) ([]hookadmin.RefusedRequest, string, hookadmin.Time) {
		return page.Refused, page.Next, hookadmin.Time{}
	},
	narrow: []narrowing{
		{"GATEWAY", 12},
		{"AT", brief},
		{"GATEWAY", out},
		{"METHOD", out},
		{"REMOTE", 16},
		{"SOURCE", 12},
		{"ERROR ID", below},
		{"REASON", 12},
		{"REMOTE", out},
	},
	instead: map[string]lister{"group": refusedGroups},
	columns: []string{"AT", "SOURCE", "REASON", "STATUS", "METHOD", "REMOTE", "GATEWAY", "ERROR ID"},
	cells: func(r *hookadmin.RefusedRequest) []string {
		return []string{
			at(r.At), orDash(r.Source), r.Reason, strconv.Itoa(r.Status), r.Method, orDash(r.Remote), orDash(r.Gateway), r.ID,
		}
	},
}

var refusedGroups = &list[hookadmin.RefusedGroupPage, hookadmin.RefusedGroup]{
	things: "refused requests", doing: "grouping refused requests",
	filters: refusedGroupFilters, parse: checkedBy(hookadmin.ParseRefusedFilter), ask: (*adminclient.Client).RefusedGroups,
	rows: func(page *hookadmin.RefusedGroupPage) ([]hookadmin.RefusedGroup, string, hookadmin.Time) {
		return page.Groups, "", hookadmin.Time{}
	},
	narrow:  []narrowing{{"FIRST", out}, {"LAST", brief}, {"SOURCES", 16}, {"REMOTE", 16}, {"ERROR ID", below}, {"REASON", 16}},
	columns: []string{"KEPT", "REASON", "REMOTE", "SOURCES", "FIRST", "LAST", "ERROR ID"},
	cells: func(g *hookadmin.RefusedGroup) []string {
		sources := make([]string, len(g.Sources))
		for i, name := range g.Sources {
			sources[i] = orDash(name)
		}
		return []string{strconv.FormatInt(g.Count, 10), g.Reason, orDash(g.Remote), strings.Join(sources, ", "), at(g.FirstAt), at(g.LastAt), g.ID}
	},
}

func (p *program) refusedListCommand() *cobra.Command {
	cmd := refusedList.command(p, &cobra.Command{
		Use:   "list",
		Short: "List requests that were answered 4xx or 503, newest first",
		Long: "List requests that were answered 4xx or 503, newest first: a wrong signature, an\n" +
			"unknown source, a body that is too large, no database. Up to 64 a second of each\n" +
			"source are kept, and its newest 1,000. While its database takes no writes, a\n" +
			"gateway lists those that it could not store yet, too. --group counts those that\n" +
			"are kept by address and reason, largest first, which shows where a flood comes\n" +
			"from.",
		Example: "  hookonce refused list --source stripe --since 1h\n  hookonce refused list --group --since 15m",
	})
	cmd.Flags().Bool("group", false, "count the requests by address and reason")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return cmp.Or(exclusive(cmd, "group", "limit"), exclusive(cmd, "group", "cursor"))
	}
	reasons := cobra.FixedCompletions(tell.Kept(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("reason", reasons) // fails only for an unknown flag
	return cmd
}

func (p *program) refusedShowCommand() *cobra.Command {
	return (&show[hookadmin.RefusedRequest]{
		names: []string{"ERROR_ID"}, doing: "reading a refused request", print: printRefusedRequest,
		ask: func(ctx context.Context, client *adminclient.Client, args []string) (*hookadmin.RefusedRequest, error) {
			page, err := client.Refused(ctx, url.Values{"id": args})
			if err != nil || len(page.Refused) == 0 {
				return nil, cmp.Or(err, driver.ErrNotFound)
			}
			return &page.Refused[0], nil
		},
		absent: func(_ context.Context, _ *adminclient.Client, args []string, err error) error {
			return app.Errorf("refused request %q: %w", args[0], err).Try("hookonce refused list")
		},
	}).command(p, &cobra.Command{
		Use:   "show ERROR_ID",
		Short: "Show one refused request: reason, headers, body",
		Long: "Show one refused request: reason, headers and the beginning of its body. Values\n" +
			"of headers that may be secret are shown as their length. ERROR_ID stands in the\n" +
			"answer that the sender got (\"instance\"), in the log and in refused list.",
		Example: "  hookonce refused show 50f690539a3cc6d4",
	})
}

// printRefusedRequest prints one request for people.
func printRefusedRequest(w io.Writer, r *hookadmin.RefusedRequest) {
	size := "not read"
	if r.BodySize != nil {
		size = say.Count(int(*r.BodySize), "byte")
	}
	t := newFacts(w)
	for _, line := range [][2]string{
		{"Error id", r.ID},
		{"Time", at(r.At)},
		{"Source", orDash(r.Source)},
		{"Reason", r.Reason},
		{"Answered", strconv.Itoa(r.Status)},
		{"Method", r.Method},
		{"Remote", fromClient(r.Remote, r.Gateway)},
		{"Body", size},
	} {
		t.row(line[0]+":", line[1])
	}
	if entry := tell.EntryOf(r.Reason); entry != "" {
		t.row("See:", seeURL(entry))
	}
	t.Flush()
	printHeadersAndBody(w, r.Headers, r.Body, r.BodyBase64)
}
