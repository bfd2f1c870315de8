// Package reconcile reads the events that a provider's API lists. It is polite: it pauses between requests, obeys
// Retry-After, and backs off. It holds one page in memory, follows no redirect, and dials only public addresses
// unless the operator names a host.
package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/dial"
	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/provider"
)

// Limits of a Client.
const (
	timeout   = 30 * time.Second       // of one request
	pause     = 200 * time.Millisecond // between two requests
	maxPage   = 32 << 20               // bytes of one answer
	maxPages  = 20_000                 // of one reading
	maxCursor = 1 << 10                // bytes
	maxTries  = 6
	maxWait   = 5 * time.Minute // that the API may ask for with Retry-After
	firstWait = time.Second     // after the first failure; doubled after each
)

// Errors of a Client. No error holds the key, or text of the API's answer.
var (
	// ErrKey says that the API refuses the key.
	ErrKey = errors.New("the API refuses the key: it is wrong, has expired, or may not read this list")
	// ErrAPI says that the API did not answer as documented, or not in time.
	ErrAPI  = errors.New("the provider's API could not be read")
	errGone = fmt.Errorf("%w: it has no such list or event: look at the parameters", ErrAPI)
)

// Options are the settings of a Client.
type Options struct {
	List   *provider.List
	Key    string
	Params map[string]string
	// URL replaces scheme and host of the list's addresses. An address that is named here may be a private one.
	URL string
}

// Client reads one list. It serves one goroutine.
type Client struct {
	o      Options
	client *http.Client
	last   time.Time // when the last request began
	pause  time.Duration
	wait   time.Duration
	pages  int
}

// New returns a Client. CheckURL has accepted o.URL.
func New(o *Options) *Client {
	check := dial.Check(dial.Public)
	if o.URL != "" {
		check = dial.Always
	}
	transport := dial.Transport(nil, check, timeout)
	transport.MaxResponseHeaderBytes = 64 << 10
	return &Client{o: *o, pause: pause, wait: firstWait, pages: maxPages, client: &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// CheckURL checks a URL for Options.URL: https, or http on this machine, because it gets the key.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return errors.New("it must be a scheme and a host alone, such as https://api.example.com")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	}
	return errors.New("it must be https, because it gets the key")
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// Event is an event that the API lists. Only a Client makes one that is not empty.
type Event struct {
	id     string
	at     time.Time
	header http.Header
	body   []byte // nil before Complete, if the list has none
}

// At returns the time of the event; zero if the API gives none that can be read.
func (e *Event) At() time.Time { return e.at }

// Header returns the headers of the webhook that hold facts of the event. There is no signature.
func (e *Event) Header() http.Header { return e.header }

// Body returns the body of the webhook; nil before Complete, if the list itself does not hold it.
func (e *Event) Body() []byte { return e.body }

// Pages returns the pages of events since a time, each once. It ends after an error.
func (c *Client) Pages(ctx context.Context, since time.Time) iter.Seq2[[]Event, error] {
	return func(yield func([]Event, error) bool) {
		seen := map[string]bool{}
		for cursor := ""; ; {
			events, next, err := c.page(ctx, since, cursor)
			switch {
			case err != nil || next == "":
			case seen[next]:
				err = fmt.Errorf("%w: it repeats a page", ErrAPI)
			case len(next) > maxCursor:
				err = fmt.Errorf("%w: the address of its next page is too long", ErrAPI)
			case len(seen) == c.pages:
				err = fmt.Errorf("%w: it has more than %d pages: look at a shorter time", ErrAPI, c.pages)
			}
			seen[next] = true
			if !yield(events, err) || err != nil || next == "" {
				return
			}
			if c.o.List.Since == "" && allOlder(events, since) {
				return
			}
			cursor = next
		}
	}
}

func allOlder(events []Event, since time.Time) bool {
	for i := range events {
		if !events[i].at.Before(since) {
			return false
		}
	}
	return true
}

func (c *Client) page(ctx context.Context, since time.Time, cursor string) (events []Event, next string, err error) {
	l := c.o.List
	address, err := c.address(l.URL, c.o.Params)
	if err != nil {
		return nil, "", err
	}
	query := address.Query()
	if l.Since != "" {
		at := strconv.FormatInt(since.Unix(), 10)
		if l.SinceText {
			at = since.UTC().Format(time.RFC3339)
		}
		query.Set(l.Since, at)
	}
	if cursor != "" {
		query.Set(l.Cursor, cursor)
	}
	address.RawQuery = query.Encode()
	document, header, err := c.get(ctx, address)
	if err != nil {
		return nil, "", err
	}
	var items []json.RawMessage
	if raw := dig(document, l.Items); raw == nil || json.Unmarshal(raw, &items) != nil || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, "", fmt.Errorf("%w: the answer holds no list", ErrAPI)
	}
	for _, item := range items {
		events = append(events, c.event(item))
	}
	switch {
	case l.Next != "":
		return events, text(dig(document, l.Next)), nil
	case l.More == "":
		return events, nextCursor(header, l.Cursor), nil
	}
	if string(dig(document, l.More)) != "true" {
		return events, "", nil
	}
	if len(events) == 0 || events[len(events)-1].id == "" {
		return nil, "", fmt.Errorf("%w: it announces another page, and says not which", ErrAPI)
	}
	return events, events[len(events)-1].id, nil
}

func (c *Client) event(item json.RawMessage) Event {
	l := c.o.List
	e := Event{id: text(dig(item, l.ID)), at: moment(text(dig(item, l.Time))), header: http.Header{"Content-Type": {"application/json"}}}
	for name, path := range l.EventHeader {
		if value := text(dig(item, path)); value != "" {
			e.header.Set(name, value)
		}
	}
	if l.Detail == "" {
		e.body = l.Wrapped(dig(item, l.Body))
	}
	return e
}

// Complete fetches the body of e, if the list itself does not hold it.
func (c *Client) Complete(ctx context.Context, e *Event) error {
	l := c.o.List
	if l.Detail == "" || e.body != nil || e.id == "" {
		return nil
	}
	params := map[string]string{"item": e.id}
	for name, value := range c.o.Params {
		params[name] = value
	}
	address, err := c.address(l.Detail, params)
	if err != nil {
		return err
	}
	document, _, err := c.get(ctx, address)
	switch {
	case errors.Is(err, errGone): // its time has passed since the list was read: it stays without a body
		return nil
	case err == nil:
		e.body = l.Wrapped(dig(document, l.Body))
	}
	return err
}

func (c *Client) address(raw string, params map[string]string) (*url.URL, error) {
	u, err := url.Parse(c.o.List.Fill(raw, params))
	if err == nil && c.o.URL != "" {
		var base *url.URL
		if base, err = url.Parse(c.o.URL); err == nil {
			u.Scheme, u.Host = base.Scheme, base.Host
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: its address is malformed", ErrAPI)
	}
	return u, nil
}

// get gets a JSON document, if need be in several tries.
func (c *Client) get(ctx context.Context, u *url.URL) (document json.RawMessage, header http.Header, err error) {
	for try := 1; ; try++ {
		if err := sleep(ctx, time.Until(c.last.Add(c.pause))); err != nil {
			return nil, nil, err
		}
		c.last = time.Now()
		wait := c.wait << (try - 1)
		var asked time.Duration
		document, header, asked, err = c.once(ctx, u)
		switch {
		case err == nil:
			return document, header, nil
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case !isPassing(err):
			return nil, nil, err
		case try == maxTries:
			return nil, nil, fmt.Errorf("%w (%d tries)", err, try)
		case asked > maxWait:
			return nil, nil, fmt.Errorf("%w: it asks to wait for %s: run this again then", err, asked)
		}
		if err := sleep(ctx, max(wait, asked)); err != nil {
			return nil, nil, err
		}
	}
}

// passingError is an error that another try may mend.
type passingError struct{ error }

// Unwrap returns the error inside.
func (e passingError) Unwrap() error { return e.error }

func isPassing(err error) bool {
	_, is := errors.AsType[passingError](err)
	return is
}

func again(format string, args ...any) error {
	return passingError{fmt.Errorf("%w: "+format, append([]any{ErrAPI}, args...)...)}
}

func (c *Client) once(ctx context.Context, u *url.URL) (document json.RawMessage, header http.Header, asked time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%w: its address is malformed", ErrAPI)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "hookonce")
	for name, value := range c.o.List.Header {
		req.Header.Set(name, value)
	}
	if c.o.List.Auth == provider.AuthBasic {
		req.SetBasicAuth(c.o.Key, "")
	} else {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		if refused := dial.ErrAddress; errors.Is(err, refused) {
			return nil, nil, 0, fmt.Errorf("%w: %s: %w", ErrAPI, u.Host, refused)
		}
		return nil, nil, 0, again("%s does not answer", u.Host) // the error itself may show the address
	}
	defer func() { _ = resp.Body.Close() }()
	asked = headers.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	status := resp.StatusCode
	switch {
	case status == http.StatusOK:
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && resp.Header.Get("Retry-After") != "":
		return nil, nil, asked, again("%s limits the rate", u.Host)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, nil, 0, fmt.Errorf("%w (%s, status %d)", ErrKey, u.Host, status)
	case status >= 500:
		return nil, nil, asked, again("%s answers %d", u.Host, status)
	case status == http.StatusNotFound || status == http.StatusGone:
		return nil, nil, 0, errGone
	default:
		return nil, nil, 0, fmt.Errorf("%w: %s answers %d", ErrAPI, u.Host, status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	switch {
	case err != nil:
		return nil, nil, 0, again("the answer of %s is cut off", u.Host)
	case len(body) > maxPage:
		return nil, nil, 0, fmt.Errorf("%w: the answer of %s is larger than %d bytes", ErrAPI, u.Host, maxPage)
	case !json.Valid(body):
		return nil, nil, 0, again("the answer of %s is not JSON", u.Host)
	}
	return body, resp.Header, 0, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var nextLink = regexp.MustCompile(`<([^>]*)>[^<]*;\s*rel="?next"?`)

// nextCursor returns the cursor of the next page. Only the parameter of the link counts, never its host.
func nextCursor(h http.Header, parameter string) string {
	m := nextLink.FindStringSubmatch(strings.Join(h.Values("Link"), ", "))
	if m == nil {
		return ""
	}
	u, err := url.Parse(m[1])
	if err != nil {
		return ""
	}
	return u.Query().Get(parameter)
}

// dig returns the value at a path; nil if there is none.
func dig(raw json.RawMessage, path string) json.RawMessage {
	if path == "" {
		return raw
	}
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return nil
		}
		raw = object[name]
	}
	return raw
}

// text returns a string or a number as text; "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	_ = json.Unmarshal(raw, &n)
	return n.String()
}

func moment(s string) time.Time {
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(seconds, 0)
	}
	at, _ := time.Parse(time.RFC3339, s)
	return at
}
