package keyfetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// document is one URL, with what is sent there. The Fetcher's mutex guards it.
type document struct {
	content  *content      // nil if it was never there
	fetching chan struct{} // closed when the fetch that is under way ends; nil without
	retry    time.Time     // not to be fetched again before
	err      error         // of the last fetch
}

// compare sorts documents by their worth.
func (d *document) compare(o *document) int {
	switch {
	case d.fetching != nil || o.fetching != nil:
		return boolInt(d.fetching != nil) - boolInt(o.fetching != nil)
	case d.content == nil || o.content == nil:
		if worth := boolInt(d.content != nil) - boolInt(o.content != nil); worth != 0 {
			return worth
		}
		return d.retry.Compare(o.retry)
	}
	return d.content.got.Compare(o.content.got)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fetch gets a document and keeps what it got, or why it did not. What makes no sense
// does not take the place of what did.
func (f *Fetcher) fetch(d *document, v *verify.Verifier, ref *verify.KeyRef) {
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	fetched := &content{keys: make(map[keyID]parsed)}
	var err error
	if fetched.data, err = f.get(ctx, ref); err == nil {
		if _, parseErr := fetched.parse(v, ref, f.now()); !errors.Is(parseErr, ErrUnknown) {
			err = parseErr
		}
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	close(d.fetching)
	d.fetching, d.err = nil, err
	switch {
	case err == nil:
		fetched.got = now
		d.content, d.retry = fetched, time.Time{}
	case errors.Is(err, ErrUnknown):
		d.content, d.retry = nil, now.Add(UnknownFor) // it was withdrawn, if it ever was there
	default:
		d.retry = now.Add(FailedFor)
	}
}

func (f *Fetcher) get(ctx context.Context, ref *verify.KeyRef) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, ref.Method, ref.URL, bytes.NewReader(ref.Body))
	if err != nil {
		return nil, fmt.Errorf("%w: the request cannot be made", ErrUnavailable)
	}
	if ref.Header != nil {
		req.Header = ref.Header.Clone()
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "hookonce")
	}
	// The transport and not a client: a client follows redirects.
	resp, err := f.transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK:
	case (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone) && ref.Named:
		return nil, ErrUnknown
	default:
		return nil, fmt.Errorf("%w: it answered %d", ErrUnavailable, resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case len(data) > MaxSize:
		return nil, fmt.Errorf("%w: the answer has more than %d bytes", ErrUnavailable, MaxSize)
	}
	return data, nil
}

// content is what was got. Only keys changes.
type content struct {
	data []byte
	got  time.Time

	mu   sync.Mutex
	keys map[keyID]parsed // those that were found in it
}

// parsed is what was found. A certificate may expire while it is kept, so it is
// looked at anew from time to time.
type parsed struct {
	keys  []verify.Key
	until time.Time
}

const parsedFor = time.Minute

// keyID names one key of a document, as one scheme reads it.
type keyID struct {
	verifier *verify.Verifier
	id       string
}

// maxParsed bounds content.keys; a reload of the settings makes new verifiers.
const maxParsed = 256

// fresh reports whether c may be used without asking anew. What was got since began
// may be, however short its age.
func (c *content) fresh(now time.Time, ref *verify.KeyRef, began time.Time) bool {
	return now.Before(c.got.Add(maxAge(ref))) || !c.got.Before(began)
}

// parse returns the key of c that ref names. A document that makes no sense is not
// the sender's fault.
func (c *content) parse(v *verify.Verifier, ref *verify.KeyRef, now time.Time) ([]verify.Key, error) {
	id := keyID{v, ref.ID}
	c.mu.Lock()
	found := c.keys[id]
	c.mu.Unlock()
	if now.Before(found.until) {
		return found.keys, nil
	}
	keys, err := parse(v, ref, c.data)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) >= maxParsed {
		clear(c.keys)
	}
	c.keys[id] = parsed{keys, now.Add(parsedFor)}
	return keys, nil
}

// parse makes a panic an error: it runs in a goroutine of its own, where one would
// end the process.
func parse(v *verify.Verifier, ref *verify.KeyRef, data []byte) (keys []verify.Key, err error) {
	defer func() {
		if r := recover(); r != nil {
			keys, err = nil, fmt.Errorf("%w: panic: %v", ErrUnavailable, r)
		}
	}()
	keys, err = v.ParseFetched(ref, data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case len(keys) == 0:
		return nil, ErrUnknown
	}
	return keys, nil
}
