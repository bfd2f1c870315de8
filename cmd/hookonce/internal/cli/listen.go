package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// listenFilters are the filters of listen.
var listenFilters = []filterFlag{sourceFilter, sinceFilter}

// listenFlags are the flags of listen.
type listenFlags struct {
	*senderFlags
	api     *apiFlags
	as      string
	timeout time.Duration
	redact  bool
	json    bool
}

func (p *program) listenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "listen TARGET",
		Short: "Send copies of stored and new events to a URL here",
		Long: "Send a copy of each event of a gateway to TARGET, until interrupted: first the\n" +
			"stored ones since --since, then each new one as it arrives. A copy has the\n" +
			"stored bytes and headers. Nothing changes at the gateway; its read-only token is\n" +
			"enough (HOOKONCE_READ_TOKEN). Connections go out only: to the gateway and to\n" +
			"TARGET.\n\n" +
			"TARGET is a URL, or a port and a path of this machine. With --secret copies are\n" +
			"signed again, so that their signatures are neither too old nor those of another\n" +
			"secret. With --as they are as that destination gets them: for an application\n" +
			"that runs behind the gateway.",
		Example: "  hookonce listen 3000/hooks\n" +
			"  hookonce listen --from https://hookonce.internal:8081 --since 1h \\\n" +
			"    --source stripe --secret whsec_test 3000/hooks",
		Args: arguments("TARGET"),
	}
	f := &listenFlags{senderFlags: &senderFlags{cmd: cmd}}
	f.api = &apiFlags{settingsFlags: addSettingsFlags(cmd), name: "from"}
	addFilterFlags(cmd, listenFilters)
	flags := cmd.Flags()
	flags.StringVar(&f.api.adminURL, f.api.name, "", "the admin `URL` of the gateway (default: the one that runs here on the database of the settings)")
	f.api.ca.add(cmd)
	flags.StringVar(&f.as, "as", "", "copy what the destination `NAME` gets, with its headers and signature")
	flags.StringArrayVar(&f.secrets, "secret", nil, "sign the copies of --source, or of --as, with this `SECRET`, or file:PATH")
	flags.StringVar(&f.key, "key", "", "`FILE` with the private key, for schemes that sign with one")
	addSchemeFlags(cmd, f.senderFlags)
	flags.StringVar(&f.url, "url", "", "the public `URL`, if the signature covers it (default: TARGET)")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "wait at most this `DURATION` for an answer")
	flags.BoolVar(&f.redact, "redact", false, "replace values of headers and bodies that look secret by their lengths")
	flags.BoolVar(&f.json, "json", false, "print JSON, one copy per line")
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.NoFileCompletions)
	p.complete(f.api, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.listen(cmd.Context(), f, args[0]) }
	return cmd
}

func (p *program) listen(ctx context.Context, f *listenFlags, target string) error {
	_, filter, err := readFilter(f.cmd, listenFilters, hookadmin.ParseFilter)
	if err != nil {
		return err
	}
	l := &listener{program: p, flags: f, noted: make(map[string]bool)}
	if l.target, err = parseTarget(target); err != nil {
		return newUsageError(f.cmd, err)
	}
	if f.timeout <= 0 {
		return f.usage("--timeout must be longer than 0")
	}
	ctx, restore := interruptible(ctx)
	defer restore()
	client, settings, err := p.findGateway(ctx, f.api, reads)
	if err != nil {
		return err
	}
	if client == nil {
		return app.Errorf("no gateway of this user runs here on the database of the settings").
			Try("hookonce serve, which starts one; --from URL names the admin address of another one")
	}
	if err := l.prepare(ctx, client, settings, filter.Source); err != nil {
		return err
	}
	roots, err := f.api.ca.roots()
	if err != nil {
		return err
	}
	l.client = sample.NewClient(f.timeout, 1, roots)
	defer l.client.CloseIdleConnections()
	return l.run(ctx, client, &adminclient.Arrivals{Source: filter.Source, Since: filter.Since, Overlap: l.overlap})
}

// parseTarget reads a URL, or a port and a path of this machine: "3000/hooks". Its error does not quote
// it, because it may hold a credential.
func parseTarget(text string) (*url.URL, error) {
	wrong := errors.New("TARGET: write it as http://host/path, or as a port and a path of this machine: 3000/hooks")
	if !strings.Contains(text, "://") {
		host, path, _ := strings.Cut(text, "/")
		if !strings.Contains(host, ":") {
			host = ":" + host
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			return nil, wrong
		}
		if name == "" {
			name = "127.0.0.1"
		}
		text = "http://" + net.JoinHostPort(name, port) + "/" + path
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, wrong
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("TARGET: the port must be from 1 to 65535")
		}
	}
	u.Fragment = ""
	return u, nil
}

// listener is one run of listen.
type listener struct {
	*program
	flags   *listenFlags
	target  *url.URL
	client  *http.Client
	sources map[string]*hookadmin.Source
	signer  *signer        // nil without --secret and --key
	as      *asDestination // nil without --as
	overlap time.Duration

	screen *screen
	out    io.Writer // of the lines
	notes  io.Writer
	noted  map[string]bool // notes that were made

	last *copied // nil before the first copy
}

// prepare reads the sources of the gateway, and the key to sign with. settings are nil for a gateway elsewhere.
func (l *listener) prepare(ctx context.Context, client *adminclient.Client, settings *config.Settings, name string) error {
	f := l.flags
	page, err := client.Sources(ctx)
	if err != nil {
		return fmt.Errorf("listing the sources of the gateway: %w", err)
	}
	l.sources, l.overlap = make(map[string]*hookadmin.Source), 10*time.Second
	for i := range page.Sources {
		s := &page.Sources[i]
		l.sources[s.Name] = s
		// An event is visible at the latest when its delivery was answered.
		l.overlap = max(l.overlap, 2*time.Duration(s.AckTimeoutSeconds*float64(time.Second)))
	}
	source := l.sources[name]
	if name != "" && source == nil {
		return f.usage("--source: %q is not in the settings of the gateway; it has %s", name, orDash(strings.Join(sortedNames(l.sources), ", ")))
	}
	if f.as != "" {
		l.as, err = l.newAs(ctx, client, settings)
		return err
	}
	if len(f.secrets) == 0 && f.key == "" {
		if flags := given(f.cmd, []filterFlag{{name: "scheme"}, {name: "param"}, {name: "signature"}, {name: "url"}}); len(flags) > 0 {
			return f.usage("--%s says how copies are signed: add --secret or --key", flags[0])
		}
		return nil
	}
	if source == nil {
		return f.usage("--secret and --key sign the copies of one source: add --source NAME")
	}
	l.signer, err = l.newSigner(source)
	return err
}

// run sends copies until ctx ends or q is pressed.
func (l *listener) run(ctx context.Context, client *adminclient.Client, a *adminclient.Arrivals) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.out, l.notes = l.stdout, l.stderr
	if !l.flags.json {
		l.screen = l.newScreen()
	}
	if l.screen != nil {
		defer l.screen.close()
		l.out, l.notes = l.screen, l.screen
	}
	type arrival struct {
		event  *hookadmin.EventDetail
		stored bool
	}
	arrivals, begun := make(chan arrival), make(chan int)
	a.Begin = func(stored int) error {
		select {
		case begun <- stored:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a.Show = func(event *hookadmin.EventDetail, stored bool) error {
		select {
		case arrivals <- arrival{event, stored}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a.Trouble = func(err error) {
		fmt.Fprintf(l.notes, "Warning: %s; retrying\n", shown.EscapeLines(err.Error()))
	}
	ended := make(chan error, 1)
	go func() {
		defer l.screen.guard()
		ended <- a.Run(ctx, client)
	}()
	for {
		select {
		case stored := <-begun:
			fmt.Fprintf(l.notes, "Connected. %s stored, then live. Copies only: production state is untouched.\n", say.Number(stored))
			l.screen.setStatus("Waiting for an event.  q quit")
		case got := <-arrivals:
			if err := l.copy(ctx, got.event, got.stored); err != nil {
				return err
			}
		case key := <-l.screen.pressed():
			if key == 'q' || key == keyInterrupt {
				return nil
			}
			if err := l.press(ctx, key); err != nil {
				return err
			}
		case <-l.screen.ready():
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("following the gateway at %s: %w", client, err)
			}
			return nil
		}
	}
}

// note prints a note once.
func (l *listener) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !l.noted[text] {
		l.noted[text] = true
		fmt.Fprintf(l.notes, "Note: %s\n", shown.Escape(text))
	}
}

// tolerance returns how old the signature of an event may be by the scheme of its source; 0 if no time
// is signed, or the scheme is not known.
func (l *listener) tolerance(source string) time.Duration {
	spec, scheme := l.schemeOf(source)
	if spec == nil {
		return 0
	}
	return (&sample.Sender{Spec: spec, Scheme: scheme}).Tolerance()
}

// batched reports whether the events of a source are items of batches, which the provider signs as a
// whole.
func (l *listener) batched(source string) bool {
	spec, scheme := l.schemeOf(source)
	if spec == nil {
		return false
	}
	whole, err := (&sample.Sender{Spec: spec, Scheme: scheme, Rules: spec.Event}).Whole([]byte("{}"))
	return err == nil && !slices.Equal(whole, []byte("{}"))
}
