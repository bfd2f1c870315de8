package sdk

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/test/sdk/providers"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// guard holds one subject against the catalog's entry.
type guard struct {
	subject *providers.Subject
	sender  *sample.Sender
	key     pair
	other   pair      // a key that differs
	now     time.Time // whole seconds
	// accepted holds the changes that the SDK has accepted, see Subject.Unchecked.
	accepted map[string]bool
}

// newGuard prepares the checks of a subject. alter, if not nil, plants a fault in the scheme; the
// error matches errCompile if the scheme is refused.
func newGuard(s *providers.Subject, alter func(*verify.Scheme)) (*guard, error) {
	sender, err := sample.New(sample.Setup{Provider: provider.Name(s.Provider), Scheme: s.Scheme, Params: s.Params})
	if err != nil {
		return nil, err
	}
	sender, _ = sender.WithHints()
	if alter != nil {
		scheme := sender.Scheme
		alter(&scheme)
		v, err := verify.Compile(scheme)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errCompile, err)
		}
		sender = &sample.Sender{Spec: sender.Spec, Scheme: scheme, Verifier: v, Rules: sender.Rules}
	}
	g := &guard{subject: s, sender: sender, now: time.Now().Truncate(time.Second), accepted: map[string]bool{}}
	key, other, err := keysOf(s)
	if err != nil {
		return nil, err
	}
	if g.key, err = g.parse(key); err != nil {
		return nil, err
	}
	if g.other, err = g.parse(other); err != nil {
		return nil, err
	}
	return g, nil
}

// draft returns an unsigned request. body nil means the body that send makes.
func (g *guard) draft(body []byte, at time.Time) (*verify.Request, error) {
	s := g.subject
	header := http.Header{}
	for name, value := range s.Header {
		header.Set(name, value)
	}
	return g.sender.Request(sample.Draft{
		Event: sample.Event{ID: sample.NewID(), Type: cmp.Or(s.Type, "test"), Time: at},
		URL:   publicURL(s), RawQuery: s.Query, Header: header, Body: body, Now: at,
	})
}

func publicURL(s *providers.Subject) string {
	return cmp.Or(s.URL, "https://hooks.example.com/webhooks/"+s.Provider)
}

// own returns the subject's own body; nil if send makes the body.
func (g *guard) own() []byte {
	if g.subject.Body == "" {
		return nil
	}
	return []byte(g.subject.Body)
}

// send returns a request as hookonce send makes it.
func (g *guard) send(body []byte, at time.Time) (*providers.Request, error) {
	req, err := g.draft(body, at)
	if err != nil {
		return nil, err
	}
	sign := g.sender.Verifier.Sign
	if body != nil {
		sign = g.sender.SignOwn
	}
	if err := sign(req, g.key.signing); err != nil {
		return nil, err
	}
	return plain(req), nil
}

// sign returns a request as the SDK signs it.
func (g *guard) sign(body []byte, at time.Time) (*providers.Request, error) {
	req, err := g.draft(body, at)
	if err != nil {
		return nil, err
	}
	r := plain(req)
	r.ID = sample.NewID()
	return r, g.subject.Sign(r, &g.key.text)
}

// plain returns the form of a request for SDKs.
func plain(req *verify.Request) *providers.Request {
	r := &providers.Request{
		Method: req.Method, URL: req.URL, Query: req.RawQuery, Header: map[string]string{}, Body: string(req.Body), Now: req.Now.UnixMilli(),
	}
	for name := range req.Header {
		r.Header[strings.ToLower(name)] = req.Header.Get(name)
	}
	return r
}

// ours returns our verdict on a request.
func (g *guard) ours(r *providers.Request, key verify.Key) error {
	req := &verify.Request{
		Method: r.Method, URL: r.URL, RawQuery: r.Query, Header: http.Header{}, Body: []byte(r.Body), Now: time.UnixMilli(r.Now),
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	return g.sender.Verifier.Verify(req, []verify.Key{key})
}

// theirs returns the SDK's verdict on a request.
func (g *guard) theirs(r *providers.Request, key *providers.Key) error {
	return g.subject.Verify(r, key)
}

// accept returns an error unless both sides accept the request.
func (g *guard) accept(r *providers.Request) error {
	err := g.ours(r, g.key.public)
	if err != nil {
		err = fmt.Errorf("hookonce refuses it: %w", err)
	}
	theirs := g.theirs(r, &g.key.text)
	if theirs != nil {
		theirs = fmt.Errorf("%s refuses it: %w", g.subject.SDK, theirs)
	}
	if err = errors.Join(err, theirs); err != nil {
		err = fmt.Errorf("%w\n%s", err, show(r))
	}
	return err
}

// refuse returns an error unless both sides refuse the changed request.
func (g *guard) refuse(c *change) error {
	key := &g.key
	if c.kind == "secret" {
		key = &g.other
	}
	var err error
	if g.ours(c.request, key.public) == nil {
		err = errors.New("hookonce accepts it")
	}
	theirs := g.theirs(c.request, &key.text)
	switch {
	case errors.Is(theirs, errFault):
		err = errors.Join(err, theirs)
	case theirs == nil && g.subject.Unchecked[c.kind] == "":
		err = errors.Join(err, errors.New(g.subject.SDK+" accepts it"))
	case theirs == nil:
		g.accepted[c.kind] = true
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", c, err, show(c.request))
	}
	return nil
}

func show(r *providers.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s?%s\n", r.Method, r.URL, r.Query)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(&b, "%s: %s\n", name, r.Header[name])
	}
	fmt.Fprintf(&b, "\n%.2000s", r.Body)
	return b.String()
}

// body is one body to try.
type body struct {
	name string
	text []byte // nil: the one that send makes
}

func (g *guard) bodies() []body {
	all := []body{{"", g.own()}}
	if req, err := g.draft(g.own(), g.now); err == nil && g.subject.ASCII == "" {
		if rest, ok := strings.CutPrefix(string(req.Body), "{"); ok && strings.HasPrefix(strings.TrimSpace(rest), `"`) {
			// No program would choose this spelling: an SDK that writes the JSON again sees another text.
			all = append(all, body{"unicode", []byte(`{ "text":"Grüße, 世界 😀 \u00fc <&> \/",` + rest)})
		}
	}
	return all
}

// round is one way to make a request: who signs it.
type round struct {
	name string
	make func(body []byte, at time.Time) (*providers.Request, error)
}

func (g *guard) rounds() []round {
	rounds := []round{{"send", g.send}}
	if g.subject.Sign != nil {
		rounds = append(rounds, round{"sdk", g.sign})
	}
	return rounds
}

// check is one check of a subject.
type check struct {
	name string
	run  func() error
}

// checks returns all checks, in order.
func (g *guard) checks() []check {
	var checks []check
	for _, round := range g.rounds() {
		for _, body := range g.bodies() {
			checks = append(checks, check{path.Join(round.name, body.name), func() error { return g.checkRound(&round, body.text) }})
		}
		checks = append(checks, check{round.name + "/age", func() error { return g.checkAge(&round) }})
	}
	if g.sender.Scheme.Format == verify.FormatKV && g.sender.Scheme.Header != "" {
		checks = append(checks, check{several, g.checkSeveral})
	}
	parts := g.signedParts()
	if len(parts) == 0 && !g.bodyFree() && g.sender.Verifier.Partial() == "" && g.sender.Scheme.At == "" {
		checks = append(checks, check{"values", func() error { return errors.New("no signed part is known") }})
	}
	for _, part := range parts {
		checks = append(checks, check{"values/" + part.name, func() error { return g.checkValues(&part) }})
	}
	if g.subject.Vectors != nil {
		checks = append(checks, check{"vectors", g.checkVectors})
	}
	return checks
}

// checkRound checks that both sides accept a request, and refuse each change of it.
func (g *guard) checkRound(round *round, body []byte) error {
	r, err := round.make(body, g.now)
	if err != nil {
		return err
	}
	if err := g.accept(r); err != nil {
		return err
	}
	changes, err := g.changes(r)
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, show(r))
	}
	for _, c := range changes {
		err = errors.Join(err, g.refuse(&c))
	}
	return err
}

// checkAge checks that both sides refuse a request that was signed long ago, if the scheme signs a
// time: 20 minutes, or longer if the subject says so.
func (g *guard) checkAge(round *round) error {
	if g.sender.Scheme.Timestamp == nil {
		return nil
	}
	age := 20 * time.Minute
	if text := g.subject.Age; text != "" {
		var err error
		if age, err = time.ParseDuration(text); err != nil {
			return err
		}
	}
	r, err := round.make(g.own(), g.now.Add(-age))
	if err != nil {
		return err
	}
	r.Now = g.now.UnixMilli()
	return g.refuse(&change{kind: "age", request: r})
}

// several names the check of two signatures, and its entry in Subject.Unchecked.
const several = "several"

// checkSeveral checks that both sides accept a request with a wrong signature and a right one: while a
// secret is replaced, providers sign with both.
func (g *guard) checkSeveral() error {
	draft, err := g.draft(g.own(), g.now)
	if err != nil {
		return err
	}
	name, separator := g.sender.Scheme.Header, cmp.Or(g.sender.Scheme.Separator, ",")
	var values []string
	for _, key := range []verify.Key{g.other.signing, g.key.signing} {
		if err := g.sender.SignOwn(draft, key); err != nil {
			return err
		}
		values = append(values, draft.Header.Get(name))
	}
	prefix := g.sender.Scheme.SignatureKeys[0] + "="
	var elements []string
	for element := range strings.SplitSeq(values[1], separator) {
		if strings.HasPrefix(element, prefix) {
			for wrong := range strings.SplitSeq(values[0], separator) {
				if strings.HasPrefix(wrong, prefix) {
					elements = append(elements, wrong)
				}
			}
		}
		elements = append(elements, element)
	}
	draft.Header.Set(name, strings.Join(elements, separator))
	err = g.accept(plain(draft))
	if reason := g.subject.Unchecked[several]; reason != "" && err != nil {
		g.accepted[several] = true
		return g.ours(plain(draft), g.key.public)
	}
	return err
}

// checkVectors checks that saved requests verify at their time, and not after a change.
func (g *guard) checkVectors() error {
	vectors, err := g.subject.Vectors()
	if err != nil {
		return err
	}
	if len(vectors) == 0 {
		return errors.New("there is no vector")
	}
	for _, v := range vectors {
		if err := g.checkVector(&v); err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
	}
	return nil
}

func (g *guard) checkVector(v *providers.Saved) error {
	saved := *g
	if v.Key != nil {
		var err error
		if saved.key, err = g.parse(v.Key); err != nil {
			return err
		}
		other, err := otherKey(g.sender.Verifier, v.Key)
		if err != nil {
			return err
		}
		if saved.other, err = g.parse(other); err != nil {
			return err
		}
	}
	r := complete(g.subject, &v.Request)
	saved.now = time.UnixMilli(r.Now)
	err := saved.accept(r)
	if err != nil {
		return err
	}
	changes, err := saved.changes(r)
	if errors.Is(err, errNoTime) { // it was not signed in the second of Now
		err = nil
	}
	for _, c := range changes {
		err = errors.Join(err, saved.refuse(&c))
	}
	return err
}

// complete returns a saved request with the method and URL that it may lack.
func complete(s *providers.Subject, saved *providers.Request) *providers.Request {
	r := *saved
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	if r.URL == "" {
		r.URL = publicURL(s)
	}
	if r.Header == nil {
		r.Header = map[string]string{}
	}
	return &r
}

// TestProviders runs every check of every subject.
func TestProviders(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.Name(), func(t *testing.T) {
			g, err := newGuard(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range g.checks() {
				t.Run(c.name, func(t *testing.T) {
					if err := c.run(); err != nil {
						t.Error(err)
					}
				})
			}
			for kind, reason := range s.Unchecked {
				if plants[kind] == nil && !g.accepted[kind] && !t.Failed() {
					t.Errorf("the SDK refuses every change of kind %q, so it is checked; take out: %s", kind, reason)
				}
			}
		})
	}
}
