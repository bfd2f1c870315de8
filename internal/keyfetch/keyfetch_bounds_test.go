package keyfetch_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/verify"
)

// A caller that may not ask for unseen documents still gets known keys, and newer versions of known
// documents.
func TestCallerWithoutPermission(t *testing.T) {
	t.Parallel()
	k, v := newKeys(t, each), single(t)
	k.want(t, v, "known-1", nil)
	asked := 0
	k.may = func() bool { asked++; return false }
	k.want(t, v, "known-1", nil)
	k.pass(keyfetch.DefaultMaxAge)
	k.want(t, v, "known-1", nil) // fetched again
	k.wantAsked(t, 2)
	if asked != 0 {
		t.Errorf("may was called %d times for a known document", asked)
	}
	k.want(t, v, "known-2", keyfetch.ErrTooMany)
	k.want(t, v, "made-up", keyfetch.ErrTooMany)
	k.wantAsked(t, 0)
	if asked != 2 {
		t.Errorf("may was called %d times for 2 unknown documents", asked)
	}
	// The refusals did not use up the budget.
	k.may = func() bool { return true }
	for i := range 19 {
		k.want(t, v, fmt.Sprintf("known-%d", i+2), nil)
	}
	k.wantAsked(t, 19)
}

// An unused budget does not grow beyond its size.
func TestBudgetDoesNotGrow(t *testing.T) {
	t.Parallel()
	k, v := newKeys(t, each), single(t)
	k.want(t, v, "made-up", keyfetch.ErrUnknown)
	k.wantAsked(t, 1)
	k.pass(24 * time.Hour)
	for i := range 20 {
		k.want(t, v, fmt.Sprintf("made-up-%d", i), keyfetch.ErrUnknown)
	}
	k.want(t, v, "made-up-20", keyfetch.ErrUnavailable)
	k.wantAsked(t, 20)
}

// flood stops the server, then asks for more documents than are kept.
func (k *keys) flood(t *testing.T) {
	t.Helper()
	k.down.Store(true)
	for range 30 {
		flood := single(t)
		for i := range 20 {
			k.want(t, flood, fmt.Sprintf("made-up-%p-%d", flood, i), keyfetch.ErrUnavailable)
		}
	}
}

// A flood of made-up keys does not evict a document while it is fetched; otherwise the next callers
// would fetch it again.
func TestDocumentBeingFetchedIsKept(t *testing.T) {
	t.Parallel()
	arrived, open := make(chan struct{}, 2), make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	k := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-open
		each(w, r)
	})
	t.Cleanup(release) // runs before the server waits for its requests
	v := single(t)
	var wg sync.WaitGroup
	wg.Go(func() { k.want(t, v, "known-1", nil) })
	<-arrived
	k.flood(t)
	release()
	wg.Wait()
	k.want(t, v, "known-1", nil)
	k.wantAsked(t, 1)
}

// Requests with different headers for one URL do not share a document.
func TestHeadersDistinguishDocuments(t *testing.T) {
	t.Parallel()
	k := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer known" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		jwks("a")(w, r)
	})
	as := func(password string) *verify.Verifier {
		return scheme(t, verify.KeySource{
			URL: "https://example.com/jwks.json", Format: verify.KeysJWKS, Header: map[string]string{"Authorization": "Bearer " + password},
		})
	}
	k.want(t, as("known"), "a", nil)
	k.want(t, as("known"), "a", nil)
	k.wantAsked(t, 1)
	k.want(t, as("other"), "a", keyfetch.ErrUnavailable)
	k.wantAsked(t, 1)
}
