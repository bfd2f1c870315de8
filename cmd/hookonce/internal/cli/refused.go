package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/tell"
)

// refusedFilters are the filters of refused list.
var refusedFilters = slices.Concat([]filterFlag{
	{"source", "only requests to this `SOURCE`"},
	{"reason", "only requests that were refused for this `REASON`, such as signature_wrong"},
	{"remote", "only requests from this `ADDRESS`"},
	sinceFilter, untilFilter,
}, pageFlags)

func (p *program) refusedCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "refused", Short: "List or show requests that were refused, and why"}
	cmd.AddCommand(p.refusedListCommand(), p.refusedShowCommand())
	return cmd
}

func (p *program) refusedListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List requests that were answered 4xx, newest first",
		Long: "List requests that were answered 4xx, newest first: a wrong signature, an\n" +
			"unknown source, a body that is too large. The newest 1,000 of each source are\n" +
			"kept. A gateway writes them within a second.",
		Example: "  hookonce refused list --source stripe --since 1h\n  hookonce refused list --reason signature_wrong",
		Args:    noArgs,
	}
	flags := addAPIFlags(cmd)
	addFilterFlags(cmd, refusedFilters)
	addJSONFlag(cmd, &asJSON)
	p.complete(flags, false)
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(tell.Reasons(), cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query, err := readQuery(cmd, refusedFilters, hookadmin.ParseRefusedFilter)
		if err != nil {
			return err
		}
		return p.withAPI(cmd.Context(), flags, reads, func(ctx context.Context, api *api) error {
			page, err := api.Refused(ctx, query)
			if err != nil {
				return fmt.Errorf("listing refused requests: %w", err)
			}
			if len(page.Refused) == 0 {
				defer warnOfSource(ctx, p.stderr, api.Client, query.Get("source"))
			}
			if asJSON {
				return writeJSON(p.stdout, page)
			}
			return p.printRefused(page)
		})
	}
	return cmd
}

func (p *program) printRefused(page *hookadmin.RefusedPage) error {
	if len(page.Refused) == 0 {
		return p.printNone("refused requests", page.Next, hookadmin.Time{})
	}
	t := newTable(p.stdout, []narrowing{
		{"GATEWAY", 12},
		{"AT", brief},
		{"GATEWAY", out},
		{"METHOD", out},
		{"REMOTE", 16},
		{"SOURCE", 12},
		{"ERROR ID", below},
		{"REASON", 12},
		{"REMOTE", out},
	}, "AT", "SOURCE", "REASON", "STATUS", "METHOD", "REMOTE", "GATEWAY", "ERROR ID")
	for i := range page.Refused {
		r := &page.Refused[i]
		t.row(at(r.At), orDash(r.Source), inWords(r.Reason), strconv.Itoa(r.Status), r.Method, orDash(r.Remote), orDash(r.Gateway), r.ID)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return p.printNext(page.Next, hookadmin.Time{})
}

// inWords returns a reason for people.
func inWords(reason string) string { return strings.ReplaceAll(reason, "_", " ") }

func (p *program) refusedShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ERROR_ID",
		Short: "Show one refused request: reason, headers, body",
		Long: "Show one refused request: reason, headers and the beginning of its body. Values\n" +
			"of headers that may be secret are shown as their length. ERROR_ID stands in the\n" +
			"answer that the sender got (\"instance\"), in the log and in refused list.",
		Example: "  hookonce refused show 50f690539a3cc6d4",
		Args:    arguments("ERROR_ID"),
	}
	flags := addAPIFlags(cmd)
	p.complete(flags, false)
	addJSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.withAPI(cmd.Context(), flags, reads, func(ctx context.Context, api *api) error {
			page, err := api.Refused(ctx, url.Values{"id": args})
			switch {
			case err != nil:
				return fmt.Errorf("reading a refused request: %w", err)
			case len(page.Refused) == 0:
				return &app.Error{Err: fmt.Errorf("refused request %q: %w", args[0], driver.ErrNotFound), Remedy: "hookonce refused list"}
			case asJSON:
				return writeJSON(p.stdout, page.Refused[0])
			}
			return printRefusedRequest(p.stdout, &page.Refused[0])
		})
	}
	return cmd
}

// printRefusedRequest prints one request for people.
func printRefusedRequest(w io.Writer, r *hookadmin.RefusedRequest) error {
	size := "not read"
	if r.BodySize != nil {
		size = counted(int(*r.BodySize), "byte")
	}
	t := newFacts(w)
	for _, line := range [][2]string{
		{"Error id", r.ID},
		{"Time", at(r.At)},
		{"Source", orDash(r.Source)},
		{"Reason", inWords(r.Reason)},
		{"Answered", strconv.Itoa(r.Status)},
		{"Method", r.Method},
		{"Remote", fromClient(r.Remote, r.Gateway)},
		{"Body", size},
	} {
		t.row(line[0]+":", line[1])
	}
	return errors.Join(t.Flush(), printHeadersAndBody(w, r.Headers, r.Body, r.BodyBase64))
}
