package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/say"
)

func addYesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do not ask whether to change all that match")
}

// bulk is a change of many things that has to be confirmed.
type bulk struct {
	cmd   *cobra.Command
	verb  string // replay, discard or retry
	thing string // dead letter, event or quarantined request
	// requestID names the change, so that an interrupted one can be continued; "" for a retry.
	requestID string
	yes       bool
	only      bool                          // show the plan, and do nothing
	rate      hookonce.Rate                 // the pace; zero for none
	check     func(*adminclient.Plan) error // refuses a plan, before the question; may be nil
	labels    map[string]string             // of some parts of a plan
}

// confirm shows the plan of b on stderr and asks on a terminal. It returns false without an error if
// nothing matches. With --yes it does not ask, and plans only for a reader on a terminal.
func (p *program) confirm(ctx context.Context, b *bulk, plan func() (*adminclient.Plan, error)) (bool, error) {
	if b.yes && !isTerminal(p.stderr) {
		return true, nil
	}
	planned, err := plan()
	if err != nil {
		return false, fmt.Errorf("planning: %w", err)
	}
	if planned.Discarded > 0 {
		fmt.Fprintf(p.stderr, "Left out: %s. For those, add --note discarded.\n", say.Count(planned.Discarded, "discarded event"))
	}
	if planned.Count == 0 {
		return false, nil
	}
	if b.check != nil {
		if err := b.check(planned); err != nil {
			return false, err
		}
	}
	p.printPlan(b, planned)
	if b.yes || b.only {
		return !b.only, nil
	}
	err = p.ask(ctx, b.cmd, b.verb+" "+b.amount(planned))
	return err == nil, err
}

// ask asks on a terminal whether to go on with change, such as "replay 2 events". It returns nil only
// after a yes. Without a terminal the error is one of usage.
func (p *program) ask(ctx context.Context, cmd *cobra.Command, change string) error {
	if file, is := p.stdin.(*os.File); !is || !term.IsTerminal(int(file.Fd())) {
		return &usageError{
			fmt.Errorf("%q would %s, and there is no terminal to ask on", cmd.CommandPath(), change),
			p.sameCommand(cmd) + " --yes",
		}
	}
	fmt.Fprint(p.stderr, "Go on? [y/N] ")
	answer, err := readLine(ctx, p.stdin)
	if err != nil {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return app.Errorf("not confirmed: nothing was changed").Try("answer y, or add --yes")
	}
	return nil
}

// amount returns the number of things of a plan, such as "10,000+ dead letters".
func (b *bulk) amount(plan *adminclient.Plan) string {
	n := say.Number(plan.Count)
	switch {
	case plan.More:
		return n + "+ " + b.thing + "s"
	case plan.Count == 1:
		return n + " " + b.thing
	}
	return n + " " + b.thing + "s"
}

// pace says how long a plan takes, such as " in about 15s at 100/s"; "" if it has no pace.
func (b *bulk) pace(plan *adminclient.Plan) string {
	if b.rate.Count == 0 || b.rate == hookonce.Rate(limit.Unpaced) {
		return ""
	}
	about, per := "about ", map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[b.rate.Per]
	if plan.More {
		about = "more than "
	}
	long := time.Duration(float64(plan.Count) / float64(b.rate.Count) * float64(b.rate.Per))
	return fmt.Sprintf(" in %s%s at %d/%s", about, say.Setting(max(long.Round(time.Second), time.Second)), b.rate.Count, per)
}

func (p *program) printPlan(b *bulk, plan *adminclient.Plan) {
	w := p.stderr
	if b.only {
		w = p.stdout
	}
	fmt.Fprintf(w, "This would %s %s%s.\nReceived from %s to %s:\n", b.verb, b.amount(plan), b.pace(plan),
		moment(plan.Oldest), moment(plan.Newest))
	t := newFacts(w)
	if plan.Job != nil {
		planRows(t, plan.Job)
	}
	for _, name := range sortedNames(plan.Parts) {
		label := cmp.Or(b.labels[name], name)
		if name == "" {
			label = "no destination: the handler runs again"
			if b.verb == "discard" {
				label = "no destination"
			}
		}
		n := say.Number(plan.Parts[name])
		if plan.More {
			n += "+"
		}
		t.row("  "+n, label)
	}
	t.Flush()
}

// readLine reads a line. It gives up when ctx ends, and then leaves a reader behind.
func readLine(ctx context.Context, r io.Reader) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := bufio.NewReader(r).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil // an ended input is no confirmation
		}
		read <- result{line, err}
	}()
	select {
	case got := <-read:
		return got.line, got.err
	case <-ctx.Done():
		return "", app.Errorf("interrupted: nothing was changed").Try("run the same command again")
	}
}
