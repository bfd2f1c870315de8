// Package keyfetch fetches and caches the public keys and certificates of senders from the senders'
// own servers.
//
// The key reference comes from an unverified request, so the work that a sender can cause is
// bounded: verify.Verifier.KeyRef has decided which URLs are allowed; concurrent callers share one
// fetch; a missing document is not requested again for a while; and each scheme has a budget for
// unseen documents. No redirects are followed, no proxy is used, and only public addresses are
// dialled.
package keyfetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/dial"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/verify"
)

// Limits of Keys.
const (
	// Timeout is the default of Options.Timeout.
	Timeout = 2 * time.Second
	// MaxSize is the size of the largest document, in bytes.
	MaxSize = 256 << 10
	// DefaultMaxAge is the age limit of a document whose verify.KeyRef has none.
	DefaultMaxAge = time.Hour
	// StaleFor is how long after its maximum age a document is used while fetching a newer one
	// fails.
	StaleFor = 24 * time.Hour
	// UnknownFor is the time until a missing key is requested again.
	UnknownFor = time.Minute
	// FailedFor is the time until a failed server is asked again.
	FailedFor = 15 * time.Second

	maxDocuments = 512
)

var (
	// ErrUnknown says that the provider does not know the key that a request names. The sender is
	// at fault.
	ErrUnknown = errors.New("the provider has no such key")
	// ErrUnavailable says that the key could not be fetched. The sender should retry.
	ErrUnavailable = errors.New("the provider's keys cannot be fetched now")
	// ErrTooMany says that the caller may not ask for another unseen document.
	ErrTooMany = errors.New("the caller named too many unknown keys")
)

// Options configures a Fetcher. The zero value is usable.
type Options struct {
	// Now is the clock for ages. Defaults to time.Now.
	Now func() time.Time
	// Timeout bounds one fetch from dialling to the last byte. Defaults to the constant Timeout.
	Timeout time.Duration
	// RootCAs verifies servers. Defaults to the system's roots.
	RootCAs *x509.CertPool
	// Dial connects to host:port. The default dials only public addresses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Fetcher fetches and caches keys for any number of schemes. It is safe for concurrent use.
type Fetcher struct {
	now       func() time.Time
	timeout   time.Duration
	transport *http.Transport

	mu        sync.Mutex
	documents map[documentID]*document
	budgets   map[*verify.Verifier]*limit.Bucket
}

// New returns a Fetcher. opts may be nil.
func New(opts *Options) *Fetcher {
	if opts == nil {
		opts = &Options{}
	}
	timeout := cmp.Or(opts.Timeout, Timeout)
	f := &Fetcher{
		now:       opts.Now,
		timeout:   timeout,
		transport: dial.Transport(opts.RootCAs, dial.Public, timeout),
		documents: make(map[documentID]*document),
		budgets:   make(map[*verify.Verifier]*limit.Bucket),
	}
	if f.now == nil {
		f.now = time.Now
	}
	if opts.Dial != nil {
		f.transport.DialContext = dial.Bounded(opts.Dial)
	}
	f.transport.DisableKeepAlives = true // the next fetch is an hour away
	f.transport.MaxResponseHeaderBytes = 64 << 10
	return f
}

// Keys returns the keys for ref, which comes from v.KeyRef. It blocks until the key is fetched or
// ctx ends; the fetch itself continues for later callers. Errors match ErrUnknown, ErrUnavailable
// or ErrTooMany, and show only the host of the reference.
//
// Before Keys fetches an unseen document, it calls may. If may returns false, the error matches
// ErrTooMany. A nil may allows all.
func (f *Fetcher) Keys(ctx context.Context, v *verify.Verifier, ref *verify.KeyRef, may func() bool) ([]verify.Key, error) {
	host, err := checkURL(ref.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	q := &question{v, ref, identify(ref), f.now(), may}
	for {
		current, fetching, err := f.look(q)
		switch {
		case fetching != nil:
			select {
			case <-fetching:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: %s has not answered yet: %w", ErrUnavailable, host, context.Cause(ctx))
			}
		case err != nil:
			return nil, fmt.Errorf("%w (host %s)", err, host)
		}
		keys, err := current.parse(v, ref, f.now())
		if errors.Is(err, ErrUnknown) {
			err = f.again(q, current)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w (host %s)", err, host)
		}
		return keys, nil
	}
}

// question is one call of Keys.
type question struct {
	verifier *verify.Verifier
	ref      *verify.KeyRef
	id       documentID
	began    time.Time
	may      func() bool
}

// look returns usable content, or a channel that is closed when the current fetch ends.
func (f *Fetcher) look(q *question) (*content, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	d := f.documents[q.id]
	switch {
	case d != nil && d.fetching != nil:
		return nil, d.fetching, nil
	case d != nil && d.content != nil && d.content.fresh(now, q.ref, q.began):
		return d.content, nil, nil
	case d == nil || !now.Before(d.retry):
		fetching, err := f.start(q, now)
		return nil, fetching, err
	case d.content != nil && now.Before(d.content.got.Add(maxAge(q.ref)+StaleFor)):
		return d.content, nil, nil
	}
	return nil, nil, d.err
}

// again looks for content newer than seen, because seen lacks the key. It returns nil if there is
// some, or if a fetch is running, and starts a fetch unless one ended recently.
func (f *Fetcher) again(q *question, seen *content) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.documents[q.id]
	now := f.now()
	switch {
	case d == nil || d.content != seen || d.fetching != nil:
		return nil
	case now.Before(d.retry):
		return d.err
	case !seen.got.Before(q.began), q.ref.Named && now.Before(seen.got.Add(UnknownFor)):
		return ErrUnknown
	case now.Before(seen.got.Add(UnknownFor)):
		// An earlier request caused that fetch, and the key may be newer than its result.
		return fmt.Errorf("%w: the key set was fetched a moment ago and lacks the key", ErrUnavailable)
	}
	_, err := f.start(q, now)
	return err
}

// start starts a fetch and returns a channel that is closed when it ends. Unseen documents consume
// budget, because a sender can make up any number of them.
func (f *Fetcher) start(q *question, now time.Time) (<-chan struct{}, error) {
	d := f.documents[q.id]
	switch seen := d != nil && d.content != nil; {
	case seen:
	case q.may != nil && !q.may():
		return nil, ErrTooMany
	case f.budget(q.verifier).Take(now) > 0:
		return nil, fmt.Errorf("%w: too many unknown keys were requested", ErrUnavailable)
	}
	if d == nil {
		f.makeRoom()
		d = &document{}
		f.documents[q.id] = d
	}
	fetching := make(chan struct{})
	d.fetching = fetching
	go f.fetch(d, q.verifier, q.ref)
	return fetching, nil
}

// makeRoom evicts the document that is worth least: a missing one, otherwise the oldest.
func (f *Fetcher) makeRoom() {
	if len(f.documents) < maxDocuments {
		return
	}
	ids := slices.Collect(maps.Keys(f.documents))
	slices.SortFunc(ids, func(a, b documentID) int { return f.documents[a].compare(f.documents[b]) })
	delete(f.documents, ids[0])
}

// maxBudgets bounds the schemes with a budget; a reload of the settings makes new ones.
const maxBudgets = 1024

// A scheme may ask for budgetSize unseen documents at once, and for as many in each budgetPer.
const (
	budgetSize = 20
	budgetPer  = time.Minute
)

func (f *Fetcher) budget(v *verify.Verifier) *limit.Bucket {
	b := f.budgets[v]
	if b == nil {
		if len(f.budgets) >= maxBudgets {
			clear(f.budgets)
		}
		b = limit.New(budgetSize, budgetPer)
		f.budgets[v] = b
	}
	return b
}

// checkURL checks again the URL that KeyRef allowed.
func checkURL(raw string) (host string, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", errors.New("the URL is malformed")
	case u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		return "", errors.New("the URL is not a plain https URL")
	}
	return u.Host, nil
}

// documentID identifies a document: a hash of all parts of its request.
type documentID [sha256.Size]byte

func identify(ref *verify.KeyRef) documentID {
	h := sha256.New()
	add := func(text string) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(text)))
		_, _ = h.Write([]byte(text)) // a hash never fails
	}
	add(ref.Method)
	add(ref.URL)
	add(string(ref.Body))
	for _, name := range slices.Sorted(maps.Keys(ref.Header)) {
		for _, value := range ref.Header[name] {
			add(name)
			add(value)
		}
	}
	return documentID(h.Sum(nil))
}

func maxAge(ref *verify.KeyRef) time.Duration {
	if ref.MaxAge <= 0 {
		return DefaultMaxAge
	}
	return ref.MaxAge
}
