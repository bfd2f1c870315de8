package cli

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/samples"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
	"github.com/hookonce/hookonce/verify"
)

// Limits of one send.
const (
	maxRequests    = 1_000_000
	maxConcurrency = 1000
)

// sendFlags are the flags of send.
type sendFlags struct {
	*senderFlags
	api           *apiFlags
	sample        string
	set           []string
	fromEvent     string // the source; the event id is an argument
	id, eventType string
	times         int
	duplicate     int
	concurrency   int
	timeout       time.Duration
	skew          time.Duration
	corrupt       bool
	shuffle       bool
	print, json   bool
}

func (p *program) sendCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send URL",
		Short: "Sign and send test events as a provider would",
		Long: "Sign and send test events to any endpoint, as a provider would. The body is that\n" +
			"of --body, of a stored event (--from-event), of a sample (--sample), or a\n" +
			"generated one that holds id and type where the provider has them. Without these\n" +
			"flags it is a sample of --type, where there is one.\n\n" +
			"The signature is made with --secret or --key. If the provider signs with a\n" +
			"private key and none is given, the command generates a pair and prints the\n" +
			"public key for the settings. It contacts only the host of URL, and follows no\n" +
			"redirects.\n\n" +
			"The exit code is 0 if every answer is as expected: 2xx; or 4xx with --corrupt,\n" +
			"or with a --skew beyond the tolerance of the provider's scheme.",
		Example: "  hookonce send http://127.0.0.1:8080/webhooks/stripe --provider stripe \\\n" +
			"    --secret whsec_test --sample invoice.paid --set data.object.amount_paid=5\n" +
			"  hookonce send http://127.0.0.1:3000/hooks --from-event stripe evt_1 \\\n" +
			"    --secret whsec_test\n" +
			"  hookonce send http://127.0.0.1:8080/webhooks/gh --provider github \\\n" +
			"    --secret file:key.txt --times 100 --duplicate 3 --concurrency 20 --shuffle",
	}
	f := &sendFlags{senderFlags: addSenderFlags(cmd), api: addAPIFlags(cmd)}
	cmd.Args = f.arguments
	flags := cmd.Flags()
	flags.StringArrayVar(&f.secrets, "secret", nil, "the `SECRET`, or file:PATH")
	flags.StringVar(&f.key, "key", "", "`FILE` with the private key, for schemes that sign with one (default: generate a pair)")
	flags.StringVar(&f.url, "url", "", "the public `URL`, if the signature covers it (default: the URL to send to)")
	flags.StringVar(&f.body, "body", "", "`FILE` with the body, or - for the standard input (default: a body that fits the provider)")
	flags.StringVar(&f.sample, "sample", "", "a realistic body of this `TYPE`; an unknown one lists those of the provider")
	flags.StringArrayVar(&f.set, "set", nil, "set `PATH=VALUE` in the body, such as data.object.amount=5; may be repeated")
	flags.StringVar(&f.fromEvent, "from-event", "", "send the stored event `SOURCE EVENT_ID` of the gateway or the database again, with a new signature")
	flags.StringVar(&f.eventType, "type", "", "`TYPE` of the event (default that of the sample, or \"test\"; with --body only if a header holds it)")
	flags.StringVar(&f.id, "id", "", "`ID` of the event (default: a new one for each)")
	flags.IntVar(&f.times, "times", 1, "send `N` events")
	flags.IntVar(&f.duplicate, "duplicate", 0, "send each event `N` more times, signed each time")
	flags.IntVar(&f.concurrency, "concurrency", 1, "send up to `N` requests at once")
	flags.BoolVar(&f.shuffle, "shuffle", false, "send in random order")
	flags.BoolVar(&f.corrupt, "corrupt", false, "change one byte of the signed content, after signing")
	flags.DurationVar(&f.skew, "skew", 0, "sign with a clock that is this `DURATION` ahead, or behind if negative")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "wait at most this `DURATION` for an answer")
	flags.BoolVar(&f.print, "print", false, "print the requests, and send nothing")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		target, eventID := f.operands(p.args, args)
		return p.send(cmd.Context(), f, target, eventID)
	}
	return cmd
}

// sending is one run of send: the sender, the target and the content.
type sending struct {
	sender  *sample.Sender
	key     verify.Key
	target  *url.URL
	url     string // the public URL
	header  http.Header
	body    []byte // nil if the body is generated or changed
	sample  *samples.Sample
	stored  *storedRequest // of --from-event
	set     []setting
	flags   *sendFlags
	firstID string
	shownID string // id of the first event as a receiver reads it; "" if it cannot be read
	began   time.Time
}

func (p *program) send(ctx context.Context, f *sendFlags, target, eventID string) error {
	s, err := p.newSending(ctx, f, target, eventID)
	if err != nil {
		return err
	}
	if err := p.describe(s); err != nil {
		return err
	}
	if f.print {
		return p.printRequests(s)
	}
	ctx, restore := interruptible(ctx)
	defer restore()
	results, err := p.sendAll(ctx, s)
	if err != nil {
		return err
	}
	report := newSendReport(s, results)
	if err := p.printSendReport(report, f.json); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("interrupted after %s", say.Count(report.Requests, "request"))
	}
	if report.Unexpected > 0 {
		return app.Errorf("not answered %s: %d of %s", report.Expected, report.Unexpected, say.Count(report.Requests, "request")).
			Try(unexpectedRemedy(results))
	}
	return nil
}

func unexpectedRemedy(results []sent) string {
	for i := range results {
		if untrusted(results[i].err) {
			return "name the authority of its certificate by --ca FILE, or give the endpoint a certificate that this machine trusts"
		}
	}
	return "look at the answers above, and at the log of the endpoint"
}

func (p *program) newSending(ctx context.Context, f *sendFlags, target, eventID string) (*sending, error) {
	s := &sending{flags: f, began: time.Now(), firstID: sample.NewID()}
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.fromEvent != "" {
		if err := p.readStored(ctx, s, eventID); err != nil {
			return nil, err
		}
	}
	sender, err := f.sender()
	if err != nil {
		return nil, err
	}
	var hinted bool
	if s.sender, hinted = sender.WithHints(); hinted {
		fmt.Fprintf(p.stderr, "Note: the id is written to %s, which is unconfirmed: a source must set event.id\n", s.sender.Rules.ID)
	}
	if s.target, s.url, err = f.target(target); err != nil {
		return nil, err
	}
	if s.header, err = f.header(); err != nil {
		return nil, err
	}
	if err := p.chooseBody(s); err != nil {
		return nil, err
	}
	if err := f.checkSigning(sender); err != nil {
		return nil, err
	}
	s.key, err = p.signingKey(f, sender)
	return s, err
}

// check checks the flags that do not depend on the provider.
func (f *sendFlags) check() error {
	switch {
	case f.times < 1 || f.duplicate < 0 || f.times > maxRequests || f.duplicate > maxRequests ||
		f.times*(f.duplicate+1) > maxRequests:
		return f.usage("--times and --duplicate: 1 to %d requests can be sent at once", maxRequests)
	case f.concurrency < 1 || f.concurrency > maxConcurrency:
		return f.usage("--concurrency must be 1 to %d", maxConcurrency)
	case f.timeout <= 0:
		return f.usage("--timeout must be longer than 0")
	case f.id != "" && f.times > 1:
		return f.usage("--id names one event: leave out --times, or use --duplicate to send that event more often")
	case f.fromEvent != "" && f.body != "", f.fromEvent != "" && f.sample != "", f.body != "" && f.sample != "":
		return f.usage("--body, --sample and --from-event exclude each other: each is a body")
	case len(f.secrets) > 1:
		return f.usage("--secret: a request is signed with one secret")
	case len(f.secrets) == 1 && f.key != "":
		return f.usage("--secret and --key: a request is signed with one of them")
	}
	return nil
}

// checkSigning checks that --corrupt and --skew have something to change.
func (f *sendFlags) checkSigning(s *sample.Sender) error {
	switch {
	case f.corrupt && !s.Verifier.NeedsKeys():
		return f.usage("--corrupt: provider %s signs nothing", s.Spec.Name)
	case f.skew != 0 && s.Tolerance() == 0:
		return f.usage("--skew: scheme %s of provider %s signs no time", s.Scheme.ID, s.Spec.Name)
	}
	return nil
}

// signingKey returns the key to sign with. If none is given and receivers need only a public key,
// it generates a pair.
func (p *program) signingKey(f *sendFlags, s *sample.Sender) (verify.Key, error) {
	key, given, err := f.givenKey(s)
	v := s.Verifier
	if err != nil || given || !v.NeedsKeys() {
		return key, err
	}
	private, public, err := v.GenerateKey()
	if err != nil {
		return verify.Key{}, fmt.Errorf("generating a key: %w", err)
	}
	fmt.Fprintf(p.stderr, "A pair of keys was generated. The public key, for key: of the source:\n%s\n", public)
	return v.ParseKey(private)
}

// describe makes the first request, checks the events that a receiver would read from it, and
// prints notes about anything unusual.
func (p *program) describe(s *sending) error {
	f := s.flags
	req, err := s.request(0)
	if err != nil {
		return f.usage("%w", err)
	}
	ids, types, unusable := s.events(req)
	if len(ids) > 0 {
		s.shownID = ids[0]
	}
	if f.corrupt {
		return nil
	}
	p.describeBody(s, req)
	if len(unusable) > 0 && len(ids) > 0 {
		fmt.Fprintf(p.stderr, "Note: %s of the request cannot be used: %s\n", say.Count(len(unusable), "event"), shown.Escape(unusable[0]))
	}
	switch {
	case len(unusable) > 0 && len(ids) == 0:
		fmt.Fprintf(p.stderr, "Note: no event can be read from the request: %s\n", shown.Escape(unusable[0]))
	case f.id != "" && s.body != nil && (len(ids) != 1 || ids[0] != f.id):
		return f.usage("--id: --body holds the id, at %s: change it there", s.sender.Rules.ID)
	case f.eventType != "" && s.body != nil && (len(types) != 1 || types[0] != f.eventType):
		return f.usage("--type: --body holds the type, at %q: change it there", s.sender.Rules.Type)
	case f.times > 1:
		if second, err := s.request(1); err == nil {
			if again, _, _ := s.events(second); len(again) > 0 && len(ids) > 0 && again[0] == ids[0] {
				fmt.Fprintf(p.stderr, "Note: %s determines the id, so all %d are deliveries of one event\n", s.origin(), f.times)
			}
		}
	}
	return nil
}

// describeBody prints notes about the user's own body: a time that send sets in it, and a body that
// a source refuses although it is signed.
func (p *program) describeBody(s *sending, req *verify.Request) {
	if s.body == nil || !s.sender.Verifier.NeedsKeys() {
		return
	}
	if t := s.sender.Scheme.Timestamp; t != nil && sample.InBody(t.At) && !bytes.Equal(s.body, req.Body) {
		fmt.Fprintf(p.stderr, "Note: the time of signing is set in the body, at %s\n", t.At)
	}
	err := s.sender.Verifier.Verify(req, []verify.Key{s.key})
	if err != nil && s.expected() == 2 {
		fmt.Fprintf(p.stderr, "Note: a source refuses this body, which is sent as it is: %s\n", shown.Escape(err.Error()))
	}
}

// id returns the id of the n-th event.
func (s *sending) id(n int) string {
	switch {
	case s.flags.id != "":
		return s.flags.id
	case n == 0 && s.flags.times == 1:
		return s.firstID
	}
	return s.firstID + "_" + strconv.Itoa(n+1)
}

// request makes and signs the request of the n-th event.
func (s *sending) request(n int) (*verify.Request, error) {
	req, err := s.sender.Request(s.draft(n))
	if err != nil {
		return nil, err
	}
	for name, values := range s.header {
		req.Header[name] = values
	}
	if err := s.applySettings(req); err != nil {
		return nil, err
	}
	if !s.sender.Verifier.NeedsKeys() {
		return req, nil
	}
	sign := s.sender.Verifier.Sign
	if s.body != nil {
		sign = s.sender.SignOwn
	}
	if err := sign(req, s.key); err != nil {
		return nil, err
	}
	if s.flags.corrupt {
		return req, s.sender.Corrupt(req, s.key)
	}
	return req, nil
}

// events returns the ids and types that a receiver reads from a request, and why it cannot use
// others.
func (s *sending) events(req *verify.Request) (ids, types, unusable []string) {
	events, unusable := readEvents(s.sender, req)
	for i := range events {
		ids, types = append(ids, events[i].ID), append(types, events[i].Type)
	}
	return ids, types, unusable
}

// order returns the events in sending order.
func (s *sending) order() []int {
	f := s.flags
	order := make([]int, 0, f.times*(f.duplicate+1))
	for n := range f.times {
		for range f.duplicate + 1 {
			order = append(order, n)
		}
	}
	if f.shuffle {
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return order
}
