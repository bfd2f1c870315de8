package cli

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/shown"
	"github.com/hookonce/hookonce/verify"
)

// verdict is the shape of --json.
type verdict struct {
	Valid  bool            `json:"valid"`
	Reason string          `json:"reason"` // "" if the request is valid
	Events []verifiedEvent `json:"events"` // empty if the request is not valid, or no event can be read
}

type verifiedEvent struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Time string `json:"time"` // RFC 3339, UTC; "" if the sender did not say
}

// verifyFlags are the flags of verify.
type verifyFlags struct {
	*senderFlags
	method string
	at     int64
	json   bool
}

func (p *program) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify one saved request, without a network",
		Long: "Verify one saved request as a source of that provider would. Only the signature\n" +
			"decides: a request is valid even if its body cannot be used. The command uses no\n" +
			"network: --key gives public keys that a gateway fetches. The exit code is 0 for\n" +
			"valid, 1 for not valid, 2 for a wrong call.",
		Example: "  hookonce verify --provider github --secret file:secret.txt --body body.json \\\n" +
			"    -H 'X-Hub-Signature-256: sha256=...'",
		Args: noArgs,
	}
	f := &verifyFlags{senderFlags: addSenderFlags(cmd)}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.secrets, "secret", nil, "a `SECRET`, or file:PATH; may be repeated: any one may match")
	flags.StringVar(&f.key, "key", "", "`FILE` with the public key: PEM, certificate, JWKS, or the provider's hex or base64 form")
	flags.StringVar(&f.url, "url", "", "the public `URL` that the request was sent to, with its query")
	flags.StringVar(&f.method, "method", http.MethodPost, "the request's `METHOD`")
	flags.Int64Var(&f.at, "at", 0, "when the request was received, as `UNIX` seconds (default now)")
	flags.StringVar(&f.body, "body", "", "`FILE` with the exact body, or - for the standard input (default: no body)")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	cmd.RunE = func(_ *cobra.Command, _ []string) error { return p.verify(f) }
	return cmd
}

func (p *program) verify(f *verifyFlags) error {
	s, err := f.sender()
	if err != nil {
		return err
	}
	keys, unfit := f.keys(s)
	if unfit != nil && !errors.Is(unfit, verify.ErrZeroSecret) {
		return unfit
	}
	req, err := f.request(p, s)
	if err != nil {
		return err
	}
	for _, param := range s.Verifier.Missing() {
		fmt.Fprintf(p.stderr, "Note: --param %s is not given, so it is not compared: %s\n", param.Name, shown.Escape(param.About))
	}
	v := verdict{Events: []verifiedEvent{}}
	reason := unfit
	if reason == nil {
		reason = judge(s, req, keys)
	}
	if reason != nil {
		v.Reason = reason.Error()
	} else {
		v.Valid, v.Events = true, p.verifiedEvents(s, req)
	}
	if err := p.printVerdict(&v, f.json); err != nil {
		return err
	}
	if !v.Valid {
		return app.Errorf("the request is not valid").Try(f.remedy(reason))
	}
	return nil
}

// judge returns nil if the request is valid. A request that names a forbidden place for its key is
// not valid, even if --key gives a key.
func judge(s *sample.Sender, req *verify.Request, keys []verify.Key) error {
	if source := s.Scheme.Keys; source != nil && source.URLAt != "" && s.Verifier.FetchesKeys() {
		if _, err := s.Verifier.KeyRef(req); err != nil && !errors.Is(err, verify.ErrMissing) {
			return err
		}
	}
	return s.Verifier.Verify(req, keys)
}

// keys returns the keys that may have signed the request.
func (f *verifyFlags) keys(s *sample.Sender) ([]verify.Key, error) {
	if !s.Verifier.NeedsKeys() {
		if f.key != "" || len(f.secrets) > 0 {
			return nil, f.usage("provider %s is unsigned: it has neither --secret nor --key", s.Spec.Name)
		}
		return nil, nil
	}
	keys, err := f.readSecrets(s.Verifier)
	if err != nil {
		return nil, err
	}
	public := s.Verifier.PublicKey()
	switch {
	case f.key != "" && !public:
		return nil, f.usage("--key: scheme %s of provider %s is checked with a shared secret: use --secret", s.Scheme.ID, s.Spec.Name)
	case f.key != "":
		key, err := f.readKey(s.Verifier)
		return append(keys, key), err
	case len(keys) > 0:
		return keys, nil
	case public && s.Scheme.Keys != nil:
		return nil, f.usage("a gateway fetches this provider's public keys from %s, and this command uses no network: give them with --key",
			keysFrom(s.Scheme.Keys))
	case public:
		return nil, f.usage("--key is missing: the file with the provider's public key")
	}
	return nil, f.usage("--secret is missing")
}

func (f *verifyFlags) request(p *program, s *sample.Sender) (*verify.Request, error) {
	header, err := f.header()
	if err != nil {
		return nil, err
	}
	req := &verify.Request{Method: f.method, URL: f.url, Header: header, Now: time.Now()}
	if f.cmd.Flags().Changed("at") {
		req.Now = time.Unix(f.at, 0)
	}
	switch {
	case f.url != "":
		u, err := f.checkURL("--url", f.url)
		if err != nil {
			return nil, err
		}
		req.RawQuery = u.RawQuery
	case s.Verifier.NeedsURL():
		return nil, f.usage("--url is missing: the signature covers the public URL")
	}
	if f.body != "" {
		req.Body, err = f.readBody(p.stdin)
	}
	return req, err
}

// verifiedEvents returns the events of a verified request. It notes unusable events on stderr; they
// do not change the verdict.
func (p *program) verifiedEvents(s *sample.Sender, req *verify.Request) []verifiedEvent {
	s, hinted := s.WithHints()
	if s.Rules.ID == "" {
		fmt.Fprintf(p.stderr, "Note: the location of the event id is unknown for provider %s: a source must set event.id\n", s.Spec.Name)
		return []verifiedEvent{}
	}
	if hinted {
		fmt.Fprintf(p.stderr, "Note: the id is read from %s, which is unconfirmed: a source must set event.id\n", s.Rules.ID)
	}
	events, unusable := readEvents(s, req)
	for _, reason := range unusable {
		fmt.Fprintf(p.stderr, "Note: an event cannot be used: %s\n", shown.Escape(reason))
	}
	out := []verifiedEvent{}
	for i := range events {
		ev := verifiedEvent{ID: events[i].ID, Type: events[i].Type}
		if at := events[i].Time; !at.IsZero() {
			ev.Time = at.UTC().Format(time.RFC3339Nano)
		}
		out = append(out, ev)
	}
	return out
}

func (p *program) printVerdict(v *verdict, asJSON bool) error {
	if asJSON {
		return writeJSON(p.stdout, v)
	}
	if !v.Valid {
		fmt.Fprintf(p.stdout, "not valid: %s\n", shown.Escape(v.Reason))
		return p.written()
	}
	fmt.Fprintln(p.stdout, "valid")
	if len(v.Events) == 0 {
		return nil
	}
	t := newTable(p.stdout, []narrowing{{"TYPE", 24}, {"EVENT ID", 24}, {"TYPE", 12}}, "EVENT ID", "TYPE", "TIME")
	for _, ev := range v.Events {
		t.row(ev.ID, orDash(ev.Type), orDash(ev.Time))
	}
	t.Flush()
	return p.written()
}

// remedy suggests a flag that may be missing or wrong.
func (f *verifyFlags) remedy(err error) string {
	switch {
	case (errors.Is(err, verify.ErrTooOld) || errors.Is(err, verify.ErrTooNew)) && !f.cmd.Flags().Changed("at"):
		return "--at, the time when the request was received"
	case f.body == "":
		return "--body, the file with the request's body"
	case errors.Is(err, verify.ErrMismatch):
		return "the secret of this endpoint, and the exact bytes of the body"
	}
	return "hookonce providers " + word(f.provider) + ", which shows the headers that it signs with"
}
