package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/shown"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// signer signs the copies of one source.
type signer struct {
	sender *sample.Sender
	key    verify.Key
}

// newSigner returns the signer for the copies of a source.
func (l *listener) newSigner(source *hookadmin.Source) (*signer, error) {
	f := l.flags
	f.provider = source.Provider
	if f.scheme == "" {
		f.scheme = source.Scheme
	}
	s, err := f.sender()
	if err != nil {
		return nil, err
	}
	if f.url != "" {
		if _, err := f.checkURL("--url", f.url); err != nil {
			return nil, err
		}
	}
	send := &sendFlags{senderFlags: f.senderFlags}
	switch {
	case !s.Verifier.NeedsKeys():
		return nil, f.usage("--secret: source %q is unsigned", source.Name)
	case len(f.secrets) > 1 || len(f.secrets) == 1 && f.key != "":
		return nil, f.usage("--secret and --key: a copy is signed with one of them")
	}
	key, err := l.signingKey(send, s)
	return &signer{s, key}, err
}

// schemeOf returns the provider and the scheme of a source; nil if they are not known.
func (l *listener) schemeOf(source string) (*provider.Spec, verify.Scheme) {
	s := l.sources[source]
	if s == nil {
		return nil, verify.Scheme{}
	}
	spec, err := provider.Lookup(provider.Name(s.Provider))
	if err != nil { // of a newer gateway
		return nil, verify.Scheme{}
	}
	scheme, err := spec.ChooseScheme(s.Scheme)
	if err != nil {
		return spec, verify.Scheme{}
	}
	return spec, scheme
}

// copied is one copy, in the shape of --json.
type copied struct {
	At      hookadmin.Time `json:"at"` // of the copy
	Source  string         `json:"source"`
	EventID string         `json:"event_id"`
	Type    string         `json:"type"`
	Stored  bool           `json:"stored"` // it was there when listen began
	Status  int            `json:"status"` // of the answer; 0 without one
	Took    float64        `json:"took_seconds"`
	Error   string         `json:"error"`  // why there was no answer, or no copy
	Answer  string         `json:"answer"` // the beginning of its body
	// Remark says why a receiver may refuse the copy: its signature is too old; or "".
	Remark string `json:"remark"`

	header  http.Header
	message *send.Message // of --as
	query   string
	body    []byte // nil if there is no copy
}

// copy sends a copy of an event and prints its line.
func (l *listener) copy(ctx context.Context, event *hookadmin.EventDetail, stored bool) error {
	c := &copied{Source: event.Source, EventID: event.EventID, Type: event.Type, Stored: stored}
	if l.as != nil {
		if c.message = l.as.message(event); c.message == nil {
			l.note("source %s: events that have no message to %s are left out", c.Source, l.as.name)
			return nil
		}
	}
	r, err := newStoredRequest(event)
	if err == nil {
		err = l.fill(c, r, event)
	}
	if err != nil {
		c.At, c.Error = hookadmin.Time(time.Now()), err.Error()
		return l.print(c)
	}
	l.last = c
	return l.deliver(ctx, c)
}

// fill makes the request of a copy.
func (l *listener) fill(c *copied, r *storedRequest, event *hookadmin.EventDetail) error {
	if l.flags.redact {
		if err := r.redact(); err != nil {
			return err
		}
	}
	c.header, c.query, c.body = r.header, l.target.RawQuery, r.body
	if l.as != nil {
		return l.sign(c, r.body)
	}
	if l.signer != nil {
		r.withoutOtherSignatures(l.signer.sender)
		if err := r.whole(l.signer.sender); err != nil {
			return err
		}
		return l.sign(c, r.body)
	}
	if len(r.hidden) > 0 {
		l.note("source %s: the gateway stores %s as %s, so copies lack it; --secret sets it", c.Source, strings.Join(r.hidden, ", "), headers.Secret)
	}
	if l.batched(c.Source) {
		l.note("source %s: a copy is one item of a batch, so the signature of the batch does not fit it; --secret sends batches of one, signed", c.Source)
	}
	age := time.Since(time.Time(event.ReceivedAt))
	if tolerance := l.tolerance(c.Source); tolerance > 0 && age > tolerance {
		c.Remark = "signature too old"
		l.note("source %s: a receiver refuses signatures that are older than %s; --secret signs copies again", c.Source, tolerance)
	}
	if l.flags.redact {
		l.note("--redact: signatures do not fit redacted bodies; --secret signs copies again")
	}
	return nil
}

// sign signs a copy with this body.
func (l *listener) sign(c *copied, body []byte) error {
	if l.as != nil {
		header, err := l.as.header(*c.message, c.header, body)
		if err == nil {
			c.header, c.body = header, body
		}
		return err
	}
	public := *l.target
	public.RawQuery, public.User = "", nil
	text := public.String()
	if l.flags.url != "" {
		text = l.flags.url
	}
	req, err := l.signer.sender.Request(sample.Draft{URL: text, RawQuery: l.target.RawQuery, Header: c.header, Body: body, Now: time.Now()})
	if err != nil {
		return err
	}
	if err := l.signer.sender.SignOwn(req, l.signer.key); err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	c.header, c.query, c.body = req.Header, req.RawQuery, req.Body // of some providers, the query has the signature
	return nil
}

// deliver sends a copy and prints its line.
func (l *listener) deliver(ctx context.Context, c *copied) error {
	l.screen.setStatus("Sending " + c.EventID + " …")
	c.At = hookadmin.Time(time.Now())
	c.Status, c.Answer, c.Error = 0, "", ""
	began := time.Now()
	err := l.post(ctx, c)
	c.Took = time.Since(began).Seconds()
	if ctx.Err() != nil {
		return nil // interrupted
	}
	if err != nil {
		c.Error = err.Error()
		if untrusted(err) {
			c.Error += "; --ca FILE names the authority of its certificate"
		}
	}
	return l.print(c)
}

func (l *listener) post(ctx context.Context, c *copied) error {
	target := *l.target
	target.RawQuery = c.query
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	req.Header = c.header.Clone()
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "hookonce-listen")
	}
	answer, err := sample.Send(l.client, req)
	if err != nil {
		return err
	}
	c.Status, c.Answer = answer.Status, answerText(answer.Body)
	if c.Status == http.StatusUnauthorized && l.as == nil {
		l.note("a copy has the headers of its sender; an application behind the gateway expects those of its destination: --as NAME sends them")
	}
	return nil
}

// print prints the line of a copy.
func (l *listener) print(c *copied) error {
	if l.flags.json {
		return shown.NewEncoder(l.out).Encode(c)
	}
	l.screen.setStatus("r resend · e edit and resend · s save · q quit")
	source := c.Source + " "
	if l.flags.cmd.Flags().Changed("source") {
		source = ""
	}
	_, err := io.WriteString(l.out, shown.Escape(fmt.Sprintf("%s %s%s %s → %s", time.Time(c.At).UTC().Format("15:04:05Z"), source,
		c.EventID, orDash(c.Type), c.outcome()))+"\n")
	return err
}

// outcome returns the answer to a copy, or the reason why there is none.
func (c *copied) outcome() string {
	text := c.Error
	switch {
	case c.body == nil:
		text = "not sent: " + text
	case c.Status == 0:
		text = "no answer: " + text
	default:
		text = strconv.Itoa(c.Status) + " (" + say.BriefSeconds(c.Took) + ")"
		if c.Status/100 != 2 && c.Answer != "" {
			text += " " + c.Answer
		}
	}
	if c.Remark != "" {
		text += "  " + c.Remark
	}
	return text
}

// shownHeaders are the headers whose values --redact keeps, as the admin API does for refused requests.
var shownHeaders = []string{"Accept", "Content-Encoding", "Content-Type", "Date", "User-Agent"}

// redact replaces the values of most headers, and the values of the body whose names look secret, by
// their lengths.
func (r *storedRequest) redact() error {
	if r.header.Get("Content-Encoding") != "" {
		return errors.New("its body is compressed, so --redact cannot look into it")
	}
	for name, values := range r.header {
		if slices.Contains(shownHeaders, name) {
			continue
		}
		for i, v := range values {
			values[i] = lengthOf(v)
		}
	}
	r.body = sample.Redact(r.body, isForm(r.header))
	return nil
}

func lengthOf(value string) string { return fmt.Sprintf("<%d bytes>", len(value)) }
