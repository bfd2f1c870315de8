package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

const orderSettings = `
database: ${DATABASE_URL}
sources:
  lab:
    provider: none
    event: {id: "body:id"}
destinations:
  app:
    url: ${ORDERED}
    timeout: 1s
    concurrency: 8
    retry: {attempts: 100, first: 20ms, max: 200ms}
routes:
  - {name: all, to: app, order: {key: "body:object", version: "body:v"}}
`

const (
	orderedObjects  = 6
	orderedVersions = 40
)

// orderSink is a destination that checks the order of each object.
type orderSink struct {
	t       *testing.T
	mu      sync.Mutex
	last    map[string]*orderedSend
	highest map[string]int
	taken   map[string]bool
	faults  int
}

// orderedSend is a request. Its lease lasts for the timeout of a send, or longer, after it began.
type orderedSend struct {
	id       string
	began    time.Time
	answered bool
}

type orderedBody struct {
	ID, Object string
	V          int
}

func (s *orderSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var body orderedBody
	if err := json.Unmarshal(text, &body); err != nil {
		s.t.Errorf("the body %q: %v", text, err)
	}
	own := &orderedSend{id: body.ID, began: time.Now()}
	s.mu.Lock()
	if last := s.last[body.Object]; last != nil && !last.answered && time.Since(last.began) < time.Second {
		s.t.Errorf("%s begins while %s is on its way", body.ID, last.id)
	}
	s.last[body.Object] = own
	s.mu.Unlock()
	select {
	case <-time.After(time.Duration(rand.IntN(15)) * time.Millisecond):
	case <-r.Context().Done(): // the gateway was killed
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own.answered = true
	if rand.IntN(10) == 0 {
		s.faults++
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if !s.taken[body.ID] && body.V < s.highest[body.Object] {
		s.t.Errorf("%s arrives first after version %d", body.ID, s.highest[body.Object])
	}
	s.taken[body.ID] = true
	s.highest[body.Object] = max(s.highest[body.Object], body.V)
}

// TestOrderUnderKills sends versions of some objects through gateways that are killed all the time, and answers some
// with errors. SQLite has one gateway. The destination sees one version of an object at a time, and never a lower one first after a higher one.
// Each version is sent, or stale because a higher one was.
func TestOrderUnderKills(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		store    string
		gateways int
	}{{"postgres", 2}, {"sqlite", 1}} {
		t.Run(c.store, func(t *testing.T) {
			t.Parallel()
			s := &orderSink{t: t, last: map[string]*orderedSend{}, highest: map[string]int{}, taken: map[string]bool{}}
			server := httptest.NewServer(s)
			t.Cleanup(server.Close)
			w := newWorld(t, newDatabase(t, c.store), orderSettings)
			w.env = append(w.env, "ORDERED="+server.URL)
			var mu sync.Mutex
			up := make([]*gateway, c.gateways)
			for i := range up {
				up[i] = w.start(t)
			}
			pick := func(i int) *gateway {
				mu.Lock()
				defer mu.Unlock()
				return up[i%len(up)]
			}
			var sending sync.WaitGroup
			sending.Go(func() {
				all := orderedBodies()
				for i, body := range all {
					eventually.Succeeds(t, "a gateway claims "+body, func() error {
						answer, err := http.Post("http://"+pick(i+rand.IntN(2)).public+"/webhooks/lab", "application/json", strings.NewReader(body))
						if err != nil {
							return err
						}
						defer answer.Body.Close()
						if answer.StatusCode != http.StatusOK {
							return fmt.Errorf("answered %d", answer.StatusCode)
						}
						return nil
					})
				}
			})
			for range inLong(6, 60) {
				<-time.After(time.Duration(rand.IntN(700)) * time.Millisecond) // a random moment
				i := rand.IntN(len(up))
				pick(i).kill()
				fresh := w.start(t)
				mu.Lock()
				up[i] = fresh
				mu.Unlock()
			}
			sending.Wait()
			g := pick(0)
			g.Eventually(t, "all events end", func() bool {
				all := g.events(t, "source=lab")
				return len(all) == orderedObjects*orderedVersions &&
					!slices.ContainsFunc(all, func(e event) bool { return e.State != "done" && e.State != "skipped" })
			})
			s.mu.Lock()
			defer s.mu.Unlock()
			stale := 0
			for o := range orderedObjects {
				for v := 1; v <= orderedVersions; v++ {
					id := fmt.Sprintf("o%d_%d", o, v)
					e := g.event(t, "lab", id)
					switch {
					case e.State == "done" && s.taken[id]:
					case e.State == "skipped" && v < s.highest[fmt.Sprint("o", o)]:
						stale++
					default:
						t.Errorf("%s is %s, and the destination took it: %t", id, e.State, s.taken[id])
					}
				}
			}
			t.Logf("%d versions were taken, %d were stale, %d requests were answered 500", len(s.taken), stale, s.faults)
		})
	}
}

// orderedBodies returns the bodies of all events. Their versions are out of order, by some places.
func orderedBodies() []string {
	type placed struct {
		at   float64
		body string
	}
	var all []placed
	for o := range orderedObjects {
		for v := 1; v <= orderedVersions; v++ {
			body := fmt.Sprintf(`{"id":"o%d_%d","object":"o%d","v":%d}`, o, v, o, v)
			all = append(all, placed{float64(v) + 6*rand.Float64(), body})
		}
	}
	bodies := make([]string, 0, len(all))
	for len(all) > 0 {
		first := 0
		for i := range all {
			if all[i].at < all[first].at {
				first = i
			}
		}
		bodies = append(bodies, all[first].body)
		all = append(all[:first], all[first+1:]...)
	}
	return bodies
}
