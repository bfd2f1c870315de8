// Package reconcile reads the events that a provider's API lists. It is polite: it pauses between requests, obeys
// Retry-After, and backs off. It holds one page in memory, follows no redirect, and dials only public addresses
// unless the operator names a host.
package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/dial"
	"github.com/hookonce/hookonce/provider"
)

// Limits of a Client.
const (
	timeout   = 30 * time.Second       // of one request
	leastGap  = 200 * time.Millisecond // between two requests
	maxPage   = 32 << 20               // bytes of one answer
	maxPages  = 20_000                 // of one reading
	maxCursor = 1 << 10                // bytes
	maxEmpty  = 10                     // empty pages in a row
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
	token  string    // for the key, if the list says where to get one
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
	return &Client{o: *o, pause: pause(o.List.Rate), wait: firstWait, pages: maxPages, client: &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// pause returns the time between two requests to an API with this rate a minute: half of the rate is left to others, who use
// the same key or address.
func pause(rate int) time.Duration {
	if rate == 0 {
		return leastGap
	}
	return max(leastGap, 2*time.Minute/time.Duration(rate))
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
	item   []byte
	id     string
	at     time.Time
	header http.Header
	body   []byte // nil before Complete, if the list has none
}

// At returns the time of the event; zero if the API gives none that can be read.
func (e *Event) At() time.Time { return e.at }

// Header returns the headers of the webhook that hold facts of the event. There is no signature.
func (e *Event) Header() http.Header { return e.header }

// Item returns the event as the list shows it.
func (e *Event) Item() []byte { return e.item }

// Body returns the body of the webhook; nil before Complete, if the list itself does not hold it.
func (e *Event) Body() []byte { return e.body }

// Pages returns the pages of events since a time, each once. It ends after an error.
func (c *Client) Pages(ctx context.Context, since time.Time) iter.Seq2[[]Event, error] {
	return func(yield func([]Event, error) bool) {
		seen := map[string]bool{}
		empty := 0 // pages in a row
		for cursor := ""; ; {
			events, next, err := c.page(ctx, since, cursor)
			if empty++; len(events) > 0 {
				empty = 0
			}
			switch {
			case err != nil || next == "":
			case empty == maxEmpty:
				err = fmt.Errorf("%w: its pages are empty, and it says that there are more", ErrAPI)
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
			if c.o.List.Since == "" && c.o.List.Request == "" && allOlder(events, since) {
				return
			}
			cursor = next
		}
	}
}

// allOlder reports whether a page of the newest first ends before since. An event without a time says nothing.
func allOlder(events []Event, since time.Time) bool {
	older := false
	for i := range events {
		if at := events[i].at; !at.IsZero() {
			if !at.Before(since) {
				return false
			}
			older = true
		}
	}
	return older
}

func (c *Client) page(ctx context.Context, since time.Time, cursor string) (events []Event, next string, err error) {
	l := c.o.List
	address, err := c.address(l.URL, c.o.Params)
	if err != nil {
		return nil, "", err
	}
	var body []byte
	switch {
	case l.Request != "":
		body, err = request(l, since, cursor)
	case l.NextQuery && cursor != "":
		address.RawQuery = cursor
	default:
		address.RawQuery = queryOf(l, address.Query(), since, cursor)
	}
	if err != nil {
		return nil, "", err
	}
	document, header, err := c.get(ctx, address, body)
	if err != nil {
		return nil, "", err
	}
	var items []json.RawMessage
	raw := dig(document, l.Items)
	if empty := l.Omits && raw == nil && isObject(document); !empty && (json.Unmarshal(raw, &items) != nil || items == nil) {
		return nil, "", fmt.Errorf("%w: the answer holds no list", ErrAPI)
	}
	for _, item := range items {
		events = append(events, c.event(item))
	}
	switch {
	case l.NextQuery:
		next, err := queryAt(text(dig(document, l.Next)))
		return events, next, err
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
	e := Event{item: item, id: text(dig(item, l.ID)), at: moment(text(dig(item, l.Time))), header: http.Header{"Content-Type": {"application/json"}}}
	for name, path := range l.EventHeader {
		if value := text(dig(item, path)); value != "" {
			e.header.Set(name, value)
		}
	}
	if l.Detail == "" {
		e.body = l.Wrapped(bodyAt(item, l.Body))
	}
	return e
}

// Complete fetches the body of e, if the list itself does not hold it.
func (c *Client) Complete(ctx context.Context, e *Event) error {
	l := c.o.List
	if l.Detail == "" || e.body != nil || e.id == "" || e.id == "." || e.id == ".." { // these lead to another address
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
	document, _, err := c.get(ctx, address, nil)
	switch {
	case errors.Is(err, errGone): // its time has passed since the list was read: it stays without a body
		return nil
	case err == nil:
		e.body = l.Wrapped(bodyAt(document, l.Body))
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
