package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/probe"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
	"github.com/hookonce/hookonce/verify"
)

// probeFlags are the flags of probe.
type probeFlags struct {
	*senderFlags
	eventType     string
	sample        string
	set           []string
	checks        []string
	effects       string
	restart       string
	breaks, mends string
	timeout, wait time.Duration
	junit         string
	ca            caFlag
	json          bool
}

func (p *program) probeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe URL",
		Short: "Test any webhook endpoint: signatures, duplicates, failures, load",
		Long: "Test a webhook endpoint in any language: hold a real conversation with it, as\n" +
			"the provider would, and report check by check what it answered, why that\n" +
			"matters and what to change. It sends at most 200 requests, with ids of its own,\n" +
			"to URL alone, and takes at most five minutes. Probe a test system.\n\n" +
			"The answers do not show how often an event took effect. --effects names a\n" +
			"command that prints it: {id} is replaced by the id of an event. Without it,\n" +
			"duplicates that are answered well are unknown.\n\n" +
			"The exit code is 0 if no check failed, and none is unknown although --effects\n" +
			"was given. The checks are:\n" +
			"valid tampered wrong-secret no-signature old future several-signatures raw-body\n" +
			"duplicate race after-failure other-body same-body malformed oversized slow-body\n" +
			"restart own-trouble answer-time",
		Example: "  hookonce probe http://127.0.0.1:3000/webhooks --provider stripe \\\n" +
			"    --secret whsec_test \\\n" +
			"    --effects \"psql -Atc \\\"SELECT count(*) FROM paid WHERE event_id = '{id}'\\\"\"",
		Args: arguments("URL"),
	}
	f := &probeFlags{senderFlags: addSenderFlags(cmd)}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.secrets, "secret", nil, "the `SECRET`, or file:PATH")
	flags.StringVar(&f.key, "key", "", "`FILE` with the private key, for schemes that sign with one")
	flags.StringVar(&f.url, "url", "", "the public `URL`, if the signature covers it (default: the URL to send to)")
	flags.StringVar(&f.body, "body", "", "`FILE` with the body of the events, {id} in it for the id (default: a body that fits the provider)")
	flags.StringVar(&f.sample, "sample", "", "a realistic body of this `TYPE`, as of send")
	flags.StringArrayVar(&f.set, "set", nil, "set `PATH=VALUE` in the body, {id} in it for the id; may be repeated")
	flags.StringVar(&f.eventType, "type", "", "`TYPE` of the events (default that of the sample, or \"test\"; with --body only if a header holds it)")
	flags.StringSliceVar(&f.checks, "checks", nil, "run only these `CHECKS`, separated by commas")
	flags.StringVar(&f.effects, "effects", "", "`COMMAND` for sh that prints how often the event {id} took effect")
	flags.StringVar(&f.restart, "restart", "", "`COMMAND` for sh that kills the receiver and starts it again")
	flags.StringVar(&f.breaks, "break", "", "`COMMAND` for sh that makes the work of the receiver fail, until --mend")
	flags.StringVar(&f.mends, "mend", "", "`COMMAND` for sh that undoes --break")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Second, "wait at most this `DURATION` for an answer")
	flags.DurationVar(&f.wait, "wait", 10*time.Second, "wait at most this `DURATION` for an effect")
	flags.StringVar(&f.junit, "junit", "", "write the results to `FILE`, as JUnit XML")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	f.ca.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("checks", cobra.FixedCompletions(probe.Names(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.probe(cmd.Context(), f, args[0]) }
	return cmd
}

func (p *program) probe(ctx context.Context, f *probeFlags, target string) error {
	config, err := p.probeConfig(f, target)
	if err != nil {
		return err
	}
	ctx, restore := interruptible(ctx)
	defer restore()
	report, err := p.runProbe(ctx, config)
	switch {
	case err != nil && ctx.Err() != nil:
		return app.Errorf("interrupted: the checks are not complete").
			Try("run the same command again; --checks NAME,NAME runs a few of the checks alone")
	case err != nil:
		return err
	}
	if err := p.printProbe(report, f.json); err != nil {
		return err
	}
	if f.junit != "" {
		if err := writeJUnit(f.junit, report, f.effects != ""); err != nil {
			return app.Errorf("--junit: %w", err).Try("name a file that can be written, and probe again")
		}
	}
	return p.probeVerdict(report, f)
}

// probeVerdict returns the error that sets the exit code.
func (p *program) probeVerdict(r *probe.Report, f *probeFlags) error {
	switch {
	case len(r.Checks) == 0:
		return app.Errorf("no check was run").
			Try("give the flags that the checks above need, or choose others with --checks")
	case r.Refused:
		valid := &r.Checks[0]
		return app.Errorf("a valid event was not accepted: %s", shown.Escape(valid.Saw)).
			Try(strings.ToLower(valid.Fix[:1]) + valid.Fix[1:])
	case r.Failed > 0 && r.Effects != nil:
		return app.Errorf("%s failed, and %s could not be decided: --effects: %w", say.Count(r.Failed, "check"), say.Count(r.Unknown, "other"), r.Effects).
			Try("mend the command of --effects, change the receiver as each failed check says, and probe it again")
	case r.Failed > 0:
		return app.Errorf("%s failed", say.Count(r.Failed, "check")).
			Try("change the receiver as each failed check says, and probe it again")
	case r.Effects != nil:
		return app.Errorf("%s could not be decided: --effects: %w", say.Count(r.Unknown, "check"), r.Effects).
			Try("run the command of --effects by hand, with an id in the place of {id}: it must print one number")
	case r.Unknown > 0 && f.effects != "":
		return app.Errorf("%s could not be decided", say.Count(r.Unknown, "check")).
			Try("look at the unknown checks above: each names its reason")
	case r.Unknown == 0:
	case r.Asking == r.Unknown:
		fmt.Fprintf(p.stderr, "Warning: %s could not be decided: duplicates need --effects\n", say.Count(r.Unknown, "check"))
	default:
		fmt.Fprintf(p.stderr, "Warning: %s could not be decided: each names its reason\n", say.Count(r.Unknown, "check"))
	}
	return nil
}

func (p *program) runProbe(ctx context.Context, config *probe.Config) (*probe.Report, error) {
	progress := p.newProgress()
	defer progress.end()
	config.Progress = func(title string) { progress.show("%s…", title) }
	return probe.Run(ctx, config)
}

func (p *program) probeConfig(f *probeFlags, target string) (*probe.Config, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	sender, err := f.sender()
	if err != nil {
		return nil, err
	}
	c := &probe.Config{
		Type: f.eventType, Effects: f.effects, Restart: f.restart, Break: f.breaks, Mend: f.mends,
		Checks: f.checks, Timeout: f.timeout, Wait: f.wait,
	}
	var hinted bool
	if c.Sender, hinted = sender.WithHints(); hinted {
		fmt.Fprintf(p.stderr, "Note: the id is written to %s, which is unconfirmed\n", c.Sender.Rules.ID)
	}
	if c.Target, c.PublicURL, err = f.target(target); err != nil {
		return nil, err
	}
	if c.Header, err = f.header(); err != nil {
		return nil, err
	}
	if c.RootCAs, err = f.ca.roots(); err != nil {
		return nil, err
	}
	if err := p.probeBody(f, c); err != nil {
		return nil, err
	}
	key, given, err := f.givenKey(sender)
	switch {
	case err != nil:
		return nil, err
	case !given && sender.Verifier.NeedsKeys():
		return nil, f.usage("--key is missing: the private key whose public half the endpoint has")
	}
	c.Key = key
	if err := probe.Check(c); err != nil {
		return nil, f.usage("%w", err)
	}
	return c, nil
}

// probeBody reads the flags of the body, as those of send.
func (p *program) probeBody(f *probeFlags, c *probe.Config) error {
	s := &sending{sender: c.Sender, flags: &sendFlags{senderFlags: f.senderFlags, sample: f.sample, set: f.set}}
	set, err := s.flags.settings()
	switch {
	case err != nil:
		return err
	case f.body != "":
		c.Body, err = f.readBody(p.stdin)
	case f.sample != "":
		if err = s.flags.chooseSample(s); err == nil {
			c.Model, c.Type = s.sample.Body, cmp.Or(c.Type, s.sample.Type)
		}
	default:
		c.Type = cmp.Or(c.Type, "test")
	}
	if len(set) == 0 || err != nil {
		return err
	}
	c.SetsID = slices.ContainsFunc(set, func(one setting) bool { return strings.Contains(one.value, "{id}") })
	c.Set = func(req *verify.Request, id string) error {
		changed := &sending{set: slices.Clone(set)}
		for i := range changed.set {
			changed.set[i].value = strings.ReplaceAll(changed.set[i].value, "{id}", id)
		}
		return changed.applySettings(req)
	}
	return nil
}

// check checks the flags that do not depend on the provider.
func (f *probeFlags) check() error {
	if err := f.chooseChecks(); err != nil {
		return err
	}
	switch {
	case len(f.secrets) > 1:
		return f.usage("--secret: a request is signed with one secret")
	case len(f.secrets) == 1 && f.key != "":
		return f.usage("--secret and --key: a request is signed with one of them")
	case f.body != "" && f.sample != "":
		return f.usage("--body and --sample: give one of them")
	case f.effects != "" && !strings.Contains(f.effects, "{id}"):
		return f.usage("--effects: write {id} where the command needs the id of the event")
	case (f.breaks == "") != (f.mends == ""):
		return f.usage("--break and --mend: give both")
	case f.timeout <= 0 || f.wait <= 0:
		return f.usage("--timeout and --wait must be longer than 0")
	}
	return f.checkJUnit()
}

// chooseChecks reads the names in --checks, separated by commas or spaces.
func (f *probeFlags) chooseChecks() error {
	known := probe.Names()
	f.checks = strings.FieldsFunc(strings.Join(f.checks, ","), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(f.checks) == 0 && f.cmd.Flags().Changed("checks") {
		return f.usage("--checks names no check; the checks are %s", strings.Join(known, ", "))
	}
	for _, name := range f.checks {
		if slices.Contains(known, name) {
			continue
		}
		if near := say.Nearest(name, known); near != "" {
			return f.usage("--checks: there is no check %q; did you mean %q?", name, near)
		}
		return f.usage("--checks: there is no check %q; the checks are %s", name, strings.Join(known, ", "))
	}
	return nil
}

// checkJUnit checks --junit before the probe, which may take minutes.
func (f *probeFlags) checkJUnit() error {
	if f.junit == "" {
		return nil
	}
	folder := filepath.Dir(f.junit)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return f.usage("--junit: there is no folder %s", folder)
	}
	if info, err := os.Stat(f.junit); err == nil && info.IsDir() {
		return f.usage("--junit: %s is a folder; name a file in it", f.junit)
	}
	return nil
}

// writeJUnit writes the report to a file, or nothing.
func writeJUnit(path string, r *probe.Report, effects bool) error {
	data, err := r.JUnit(effects, shown.Escape)
	if err != nil {
		return err
	}
	part := path + ".part"
	err = os.WriteFile(part, data, 0o644) //nolint:gosec // for other programs
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}
