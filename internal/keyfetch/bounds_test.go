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

// Who may not ask for what nobody has seen still gets what is known, and newer keys of
// a document that is.
func TestAskerThatMayNot(t *testing.T) {
	t.Parallel()
	k, v := newKeys(t, each), single(t)
	k.want(t, v, "known-1", nil)
	asked := 0
	k.may = func() bool { asked++; return false }
	k.want(t, v, "known-1", nil)
	k.pass(keyfetch.DefaultMaxAge)
	k.want(t, v, "known-1", nil) // fetched anew
	k.wantAsked(t, 2)
	if asked != 0 {
		t.Errorf("may was asked %d times about a known document", asked)
	}
	k.want(t, v, "known-2", keyfetch.ErrTooMany)
	k.want(t, v, "made-up", keyfetch.ErrTooMany)
	k.wantAsked(t, 0)
	if asked != 2 {
		t.Errorf("may was asked %d times about 2 unknown documents", asked)
	}
	// The refusals have cost no other asker anything.
	k.may = func() bool { return true }
	for i := range 19 {
		k.want(t, v, fmt.Sprintf("known-%d", i+2), nil)
	}
	k.wantAsked(t, 19)
}

// However long nobody asks, no more can be asked for at once than at the beginning.
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

// flood takes the server away and asks for more documents than are kept.
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

// What is being fetched is not forgotten for what is made up meanwhile, or it would be
// fetched again for all that ask next.
func TestDocumentBeingFetchedIsKept(t *testing.T) {
	t.Parallel()
	arrived, open := make(chan struct{}, 2), make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	k := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-open
		each(w, r)
	})
	t.Cleanup(release) // before the server waits for its requests
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

// What one is shown is not for all who ask at the same URL.
func TestHeadersTellDocumentsApart(t *testing.T) {
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
