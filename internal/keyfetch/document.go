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

	"github.com/hookonce/hookonce/internal/dial"
	"github.com/hookonce/hookonce/verify"
)

// document is the content of one request: URL, method, body and headers. The Fetcher's mutex guards
// it.
type document struct {
	content  *content      // nil before the first success
	fetching chan struct{} // closed when the current fetch ends; nil without one
	retry    time.Time     // no fetch before this time
	err      error         // of the last fetch
}

// compare orders documents by how much they are worth keeping, least first.
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

// fetch fetches a document and stores its content or its error. Content that cannot be parsed does
// not replace older content.
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
		d.content, d.retry = nil, now.Add(UnknownFor) // the provider withdrew it, or never had it
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
	// Uses the transport, because a client follows redirects.
	resp, err := dial.Twice(f.transport, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK:
	case (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone) && ref.Named:
		return nil, ErrUnknown
	default:
		return nil, fmt.Errorf("%w: the server answered %d", ErrUnavailable, resp.StatusCode)
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

// content is a fetched document. Only keys changes.
type content struct {
	data []byte
	got  time.Time

	mu   sync.Mutex
	keys map[keyID]parsed // keys found in data
}

// parsed holds the keys for one keyID. A certificate may expire while it is kept, so the document
// is parsed again after parsedFor.
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

// fresh reports whether c may be used without fetching again. Content fetched since began may
// always be used, even if its age allows none.
func (c *content) fresh(now time.Time, ref *verify.KeyRef, began time.Time) bool {
	return now.Before(c.got.Add(maxAge(ref))) || !c.got.Before(began)
}

// parse returns the keys in c that ref names. ErrUnknown blames the sender; a malformed document
// does not.
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

// parse turns a panic into an error: it runs in its own goroutine, where a panic would end the
// process.
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
