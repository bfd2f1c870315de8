// Package keyfetch gets the public keys and certificates of senders from their own
// servers, and keeps them.
//
// A request that nobody has verified yet says which key it was signed with, so all
// that a sender can make this package do is bounded: where a key may be got was
// decided before (verify.Verifier.KeyRef); one document is got once for all that wait
// for it; what is not there is not asked for again for a while; and each scheme has a
// budget for documents that it has never seen. Redirects are not followed, no proxy is
// used, and only public addresses are dialled.
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

// What Keys is bounded by.
const (
	// Timeout is Options.Timeout, if that is not set.
	Timeout = 2 * time.Second
	// MaxSize is the size of the largest document, in bytes.
	MaxSize = 256 << 10
	// DefaultMaxAge is for a verify.KeyRef that has none.
	DefaultMaxAge = time.Hour
	// StaleFor is for how long beyond its age a document is used while no newer one
	// can be got.
	StaleFor = 24 * time.Hour
	// UnknownFor is how long a key that was not there is not looked for again.
	UnknownFor = time.Minute
	// FailedFor is how long a server that failed is left alone.
	FailedFor = 15 * time.Second

	maxDocuments = 512
)

var (
	// ErrUnknown is matched where the provider does not know the key that a request
	// names: the fault is the sender's.
	ErrUnknown = errors.New("the provider has no such key")
	// ErrUnavailable is matched where it could not be found out, and the sender should
	// come again.
	ErrUnavailable = errors.New("the provider's keys cannot be got now")
	// ErrTooMany is matched where who asks has named too many keys that nobody has seen.
	ErrTooMany = errors.New("too many unknown keys were named")
)

// Options configures a Fetcher. The zero value is usable.
type Options struct {
	// Now is the clock of ages. Defaults to time.Now.
	Now func() time.Time
	// Timeout is how long one fetch may take, from dialling to the last byte. Defaults to
	// the constant Timeout.
	Timeout time.Duration
	// RootCAs verifies servers. Defaults to the system's.
	RootCAs *x509.CertPool
	// Dial connects to host:port. By default only public addresses are dialled.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Fetcher gets keys and keeps them, for any number of schemes. It is safe for
// concurrent use.
type Fetcher struct {
	now       func() time.Time
	timeout   time.Duration
	transport *http.Transport

	mu        sync.Mutex
	documents map[documentID]*document
	budgets   map[*verify.Verifier]*limit.Bucket
}

// New returns a Fetcher. Without options, nil, it has the defaults.
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
		f.transport.DialContext = opts.Dial
	}
	f.transport.DisableKeepAlives = true // the next fetch is an hour away
	f.transport.MaxResponseHeaderBytes = 64 << 10
	return f
}

// Keys returns the keys that ref, which v.KeyRef returned, stands for. It waits for a
// fetch no longer than ctx allows; the fetch itself goes on, for the next one who
// asks. Errors match ErrUnknown or ErrUnavailable, and hold of the reference only the
// host.
//
// may is asked before a document is fetched that was never seen, and says whether who
// asks may still cause that; nil always may. Else the error matches ErrTooMany.
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

// look returns what may be used of the document, or what to wait for.
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

// again returns nil if there is, or will be, a newer document than seen to look for
// a key in, and begins to fetch it if that was not done lately.
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
		// Somebody asked for it before this request came, and it may be newer than that.
		return fmt.Errorf("%w: what was got a moment ago does not hold it", ErrUnavailable)
	}
	_, err := f.start(q, now)
	return err
}

// start begins a fetch, and returns what is closed at its end. What was never seen
// costs a part of the budget: only there can a sender make up as many documents as it
// likes.
func (f *Fetcher) start(q *question, now time.Time) (<-chan struct{}, error) {
	d := f.documents[q.id]
	switch seen := d != nil && d.content != nil; {
	case seen:
	case q.may != nil && !q.may():
		return nil, ErrTooMany
	case f.budget(q.verifier).Take(now) > 0:
		return nil, fmt.Errorf("%w: too many unknown keys were asked for", ErrUnavailable)
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

// makeRoom forgets the document that is worth least: one that was not there, else the
// oldest.
func (f *Fetcher) makeRoom() {
	if len(f.documents) < maxDocuments {
		return
	}
	ids := slices.Collect(maps.Keys(f.documents))
	slices.SortFunc(ids, func(a, b documentID) int { return f.documents[a].compare(f.documents[b]) })
	delete(f.documents, ids[0])
}

// maxBudgets bounds the schemes that are remembered; a reload of the settings makes
// new ones.
const maxBudgets = 1024

// A scheme may ask for this many unseen documents at once, and for as many in each
// budgetPer.
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

// checkURL is a second look at what KeyRef has allowed.
func checkURL(raw string) (host string, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", errors.New("its URL is malformed")
	case u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		return "", errors.New("its URL is not a plain https URL")
	}
	return u.Host, nil
}

// documentID tells requests for documents apart.
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
