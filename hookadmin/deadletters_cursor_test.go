package hookadmin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// dyingStore kills every replayed dead letter at once, like a destination that is still broken. It
// signals every chunk on worked.
type dyingStore struct {
	driver.Store
	worked chan struct{}
	die    func()
	lost   int // the number of the chunk whose commit is not confirmed; 0 for none

	mu      sync.Mutex
	chunks  int
	letters map[string]int // how often each event was replayed
}

func (s *dyingStore) ReplayDead(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	done, err := s.Store.ReplayDead(ctx, p)
	s.die()
	return done, s.count(p, err)
}

func (s *dyingStore) Discard(ctx context.Context, p *driver.DeadLetterParams) ([]bool, error) {
	done, err := s.Store.Discard(ctx, p)
	return done, s.count(p, err)
}

func (s *dyingStore) count(p *driver.DeadLetterParams, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, letter := range p.Letters {
		s.letters[letter.MessageID]++
	}
	s.chunks++
	if s.chunks == s.lost {
		return driver.ErrCommitUnknown
	}
	s.worked <- struct{}{}
	return err
}

// newDying returns a gateway on a dyingStore with three dead letters.
func newDying(t *testing.T, lost int) (g *gateway, s *dyingStore, once map[string]int) {
	t.Helper()
	s = &dyingStore{Store: rig.OpenSQLite(t), worked: make(chan struct{}, 10), lost: lost, letters: make(map[string]int)}
	g = newGatewayOn(t, s)
	s.die = func() { g.settle(t, driver.MessageDead) }
	once = make(map[string]int)
	for _, id := range g.enqueue(t, "a", "b", "c") {
		once[id] = 1
	}
	s.die()
	return g, s, once
}

// workOnOne sends a request at a rate that allows one dead letter, and cancels it then, as
// bulkTimeout does.
func (g *gateway) workOnOne(t *testing.T, s *dyingStore, target, body string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1"+target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		g.handler.ServeHTTP(w, r)
	}()
	<-s.worked
	cancel()
	<-answered
	if w.Code != http.StatusOK {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	return readJSON[map[string]any](t, &answer{w.Code, w.Header(), w.Body.Bytes()})
}

// TestBulkContinuesWhereItStopped repeats requests whose time runs out. Letters that are dead again
// do not come before the rest.
func TestBulkContinuesWhereItStopped(t *testing.T) {
	t.Parallel()
	for target, key := range map[string]string{replayDead: "replayed", discardDead: "discarded"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			g, s, once := newDying(t, 0)
			cursor := ""
			for i := range once {
				last := len(s.letters) == len(once)-1
				got := g.workOnOne(t, s, target, `{"all":true,"rate":"1/h"`+cursor+`}`)
				next, _ := got["next"].(string)
				if last != (next == "") {
					t.Fatalf("next %q, after %s", next, i)
				}
				want := map[string]any{key: 1.0, "passed": 0.0, "complete": last, "next": next}
				delete(got, "request_id")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				cursor = fmt.Sprintf(`,"cursor":%q`, next)
			}
			if diff := cmp.Diff(once, s.letters); diff != "" {
				t.Errorf("replayed (-want +got):\n%s", diff)
			}
		})
	}
}

// A request with ids has no cursor: the caller continues with the remaining ids.
func TestBulkOfIDsThatStopped(t *testing.T) {
	t.Parallel()
	g, s, _ := newDying(t, 0)
	got := g.workOnOne(t, s, replayDead, `{"source":"lab","ids":["a","b"],"rate":"1/h"}`)
	want := map[string]any{"replayed": 1.0, "passed": 0.0, "complete": false, "next": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestBulkThatIsCutOff loses the confirmation of its second chunk; the answer tells how to continue
// with that chunk.
func TestBulkThatIsCutOff(t *testing.T) {
	t.Parallel()
	for _, target := range []string{replayDead, discardDead} {
		g, s, _ := newDying(t, 2)
		page, err := s.DeadLetters(t.Context(), &driver.MessageFilter{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		resp := g.post(t, target, `{"all":true,"rate":"10/s"}`)
		wantDetail(t, resp, http.StatusServiceUnavailable,
			`may have happened. It handled 1 dead letters. Repeat it with "cursor":"`+page.Next.String()+`" to continue.`)

		g, _, _ = newDying(t, 1)
		resp = g.post(t, target, `{"all":true,"rate":"10/s"}`)
		wantDetail(t, resp, http.StatusServiceUnavailable, "It handled 0 dead letters. Repeating it is safe.")
	}
}
