package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
)

// ACME are the parameters of OpenACME.
type ACME struct {
	Hosts     []string // in lower case; each gets a certificate of its own
	Email     string   // for the account; may be ""
	Directory string   // URL of the authority's directory
	Folder    string   // for keys and certificates; it exists, and no other user can enter it
	UserAgent string
}

const (
	// tryTimeout bounds one try to get a certificate.
	tryTimeout = 2 * time.Minute
	// The pause after a failed try begins at firstPause and grows by pauseFactor. So the tries stay below
	// the limit of Let's Encrypt: 5 failed ones of a host, and one more every 12 minutes.
	firstPause  = 10 * time.Second
	pauseFactor = 4
	maxPause    = time.Hour
	// maxRateLimit bounds the wait that an authority may ask for.
	maxRateLimit = 24 * time.Hour
	// latestRenewal is the remaining validity that makes a certificate due for renewal, unless a third of its
	// lifetime is shorter.
	latestRenewal = 30 * 24 * time.Hour
	// maxWait bounds one wait, because timers stand still while the machine sleeps.
	maxWait = time.Hour
)

// Authority keeps certificates that an authority issues by ACME. It proves that a host leads here by
// answering the challenge tls-alpn-01 on the listener itself.
//
// It drives the protocol itself, because autocert.Manager gets certificates during handshakes, hides
// why a challenge failed, and reports no failed renewal. The folder has autocert's layout.
type Authority struct {
	ACME
	watch  Watch
	store  *store
	client *acme.Client
	hosts  map[string]*host

	registering sync.Mutex
	registered  bool
}

// host is one of ACME.Hosts.
type host struct {
	name      string
	held      atomic.Pointer[tls.Certificate] // nil before the first one
	challenge atomic.Pointer[tls.Certificate] // nil unless the authority validates the host
	trouble   atomic.Pointer[string]          // of the last try; nil if it succeeded
	wake      chan struct{}
}

// OpenACME makes or reads the account's key, and reads the stored certificates. It contacts no authority.
func OpenACME(a ACME, watch Watch) (*Authority, error) {
	store, err := openStore(a.Folder, a.Directory)
	if err != nil {
		return nil, err
	}
	key, err := store.accountKey()
	if err != nil {
		return nil, err
	}
	authority := &Authority{
		ACME: a, watch: watch, store: store, hosts: make(map[string]*host),
		client: &acme.Client{
			Key: key, DirectoryURL: a.Directory, UserAgent: a.UserAgent, RetryBackoff: retryBackoff,
			HTTPClient: &http.Client{Timeout: 30 * time.Second},
		},
	}
	for _, name := range a.Hosts {
		h := &host{name: name, wake: make(chan struct{}, 1)}
		authority.hosts[name] = h
		until := time.Time{}
		if stored, err := store.certificate(name); err == nil {
			h.held.Store(stored)
			until = stored.Leaf.NotAfter
			watch.Log.Info("certificate in use", "host", name, "expires", until.UTC().Format(time.RFC3339))
		}
		watch.Holds(name, until)
	}
	return authority, nil
}

// retryBackoff is acme.Client.RetryBackoff. It retries lost nonces and short outages; Keep waits for
// the others.
func retryBackoff(n int, _ *http.Request, answer *http.Response) time.Duration {
	const tries = 5
	if n > tries || answer.StatusCode == http.StatusTooManyRequests {
		return -1
	}
	return time.Duration(n) * 200 * time.Millisecond
}

// Config implements Keeper.
func (a *Authority) Config() *tls.Config { return serverConfig(a.certificate, acme.ALPNProto) }

// certificate returns the certificate for a handshake. An unknown name never reaches the authority.
func (a *Authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	h := a.hosts[strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))]
	if h == nil {
		return nil, fmt.Errorf("%q is not in tls.hosts", hello.ServerName)
	}
	from, missing := &h.held, "there is no certificate yet for "
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
		from, missing = &h.challenge, "no challenge is open for "
	}
	if certificate := from.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errors.New(missing + h.name)
}

// Keep implements Keeper.
func (a *Authority) Keep(ctx context.Context) {
	var keeping sync.WaitGroup
	for _, h := range a.hosts {
		keeping.Go(func() { a.keep(ctx, h) })
	}
	keeping.Wait()
}

// keep gets the certificate of a host, and renews it in time.
func (a *Authority) keep(ctx context.Context, h *host) {
	failures, due := 0, renewal(h.held.Load())
	for {
		select {
		case <-time.After(min(time.Until(due), maxWait)):
		case <-h.wake:
			if failures > 0 {
				due = time.Time{}
			}
		case <-ctx.Done():
			return
		}
		if time.Now().Before(due) {
			continue
		}
		err := a.get(ctx, h)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			due = time.Now().Add(a.failed(h, failures, err))
		default:
			failures, due = 0, renewal(h.held.Load())
		}
	}
}

// renewal returns the time to get the next certificate. It varies, so that the certificates of several
// hosts are not renewed at once.
func renewal(certificate *tls.Certificate) time.Time {
	if certificate == nil {
		return time.Time{}
	}
	leaf := certificate.Leaf
	remaining := min(leaf.NotAfter.Sub(leaf.NotBefore)/3, latestRenewal)
	return leaf.NotAfter.Add(-remaining + rand.N(min(remaining/10, time.Hour)+1))
}

// failed reports a failed try, and returns the pause before the next one.
func (a *Authority) failed(h *host, failures int, err error) time.Duration {
	pause := firstPause
	for range failures - 1 {
		pause = min(pause*pauseFactor, maxPause)
	}
	if problem := problemOf(err); problem != nil {
		if asked, limited := acme.RateLimit(problem); limited {
			pause = max(pause, min(asked, maxRateLimit))
		}
	}
	text, remedy := oneLine(err), remedyFor(err, h.name)
	h.trouble.Store(&text)
	a.store.noteFailure(h.name, text, remedy)
	a.watch.Failed(h.name)
	message := "getting a certificate failed; senders cannot connect to this host; retrying in " + pause.String()
	if h.held.Load() != nil {
		message = "renewing a certificate failed; retrying in " + pause.String()
	}
	a.watch.Log.Error(message, "host", h.name, "error", text, "remedy", remedy)
	return pause
}

// get gets a certificate for a host and brings it into use.
func (a *Authority) get(ctx context.Context, h *host) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	a.watch.Log.Info("asking for a certificate", "host", h.name, "directory", a.Directory)
	certificate, err := a.order(ctx, h)
	if err != nil {
		return err
	}
	h.held.Store(certificate)
	h.trouble.Store(nil)
	a.store.forgetFailure(h.name)
	a.watch.Holds(h.name, certificate.Leaf.NotAfter)
	a.watch.Log.Info("certificate in use", "host", h.name, "expires", certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	if err := a.store.putCertificate(h.name, certificate); err != nil {
		a.watch.Failed(h.name)
		a.watch.Log.Error("storing a certificate failed; it is in use until the gateway stops", "host", h.name, "error", err, "remedy", err.Hint())
	}
	return nil
}

// Wake implements Keeper.
func (a *Authority) Wake() {
	for _, h := range a.hosts {
		wake(h.wake)
	}
}

// Troubles implements Keeper.
func (a *Authority) Troubles() []string {
	var lines []string
	for _, name := range a.Hosts {
		h := a.hosts[name]
		held, text := h.held.Load(), ""
		switch trouble := h.trouble.Load(); {
		case held == nil && trouble == nil:
			text = "there is no certificate yet; the first try is under way"
		case held == nil:
			text = "there is no certificate, so senders cannot connect: " + *trouble
		case trouble != nil:
			text = "the certificate cannot be renewed: " + *trouble
			if expired := expiry(held.Leaf, time.Now()); expired != "" {
				text = expired + ": " + *trouble
			}
		default:
			text = expiry(held.Leaf, time.Now())
		}
		if text != "" {
			lines = append(lines, "tls.hosts: "+name+": "+text)
		}
	}
	return lines
}

// leafOf parses the certificate of a host, which comes first in the chain.
func leafOf(chain [][]byte, name string) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("the chain is empty")
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return nil, err
	}
	return leaf, leaf.VerifyHostname(name)
}
