package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
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
    concurrency: 32
    retry: {attempts: 100, first: 20ms, max: 200ms}
routes:
  - {name: all, to: app, order: {key: "body:object", version: "body:v"}}
`

const (
	orderedVersions = 40
	orderedSenders  = 6
	// orderedVariable names the environment variable with the number of messages of a long run.
	orderedVariable = "HOOKONCE_TEST_ORDERED"
)

// orderedObjects returns the number of objects.
func orderedObjects(t *testing.T) int {
	if !group.Long() {
		return orderedSenders
	}
	text := cmp.Or(os.Getenv(orderedVariable), "1000000")
	n, err := strconv.Atoi(text)
	if err != nil || n < orderedVersions*orderedSenders {
		t.Fatalf("%s=%s is not a number of %d or more", orderedVariable, text, orderedVersions*orderedSenders)
	}
	return n / orderedVersions
}

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

// count returns how many versions were taken.
func (s *orderSink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
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

// TestOrderUnderKills sends versions of some objects, in a long run a million messages, through gateways that are killed all the time, and answers some
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
			began, objects := time.Now(), orderedObjects(t)
			var sending sync.WaitGroup
			for sender := range orderedSenders {
				sending.Go(func() {
					for o := sender; o < objects; o += orderedSenders {
						for i, body := range orderedBodies(o) {
							deliver(t, func() string { return pick(i + rand.IntN(2)).public }, body)
						}
					}
				})
			}
			sent := make(chan struct{})
			go func() { sending.Wait(); close(sent) }()
			kills := 0
			for more := true; more; kills++ {
				<-time.After(time.Duration(rand.IntN(group.Rounds(700, 5000))) * time.Millisecond) // a random moment
				i := rand.IntN(len(up))
				pick(i).kill()
				fresh := w.start(t)
				mu.Lock()
				up[i] = fresh
				mu.Unlock()
				select {
				case <-sent:
					more = kills < 5
				default:
				}
			}
			claimed := time.Since(began)
			g := pick(0)
			for _, state := range []string{"running", "pending", "dead"} {
				for open := true; open; { // a long run takes as long as it goes on
					before := s.count()
					g.Eventually(t, "events end that are "+state, func() bool {
						page, next := g.page(t, "source=lab&limit=1&state="+state)
						open = len(page) > 0 || next != ""
						return !open || s.count() > before
					})
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			stale := 0
			for o := range objects {
				object := fmt.Sprint("o", o)
				for v := 1; v <= orderedVersions; v++ {
					id := fmt.Sprintf("%s_%d", object, v)
					if s.taken[id] && group.Long() {
						continue // no event is open or dead, and each look-up takes its time
					}
					e := g.event(t, "lab", id)
					switch {
					case e == nil:
						t.Errorf("%s is lost", id)
					case e.State == "done" && s.taken[id]:
					case e.State == "skipped" && v < s.highest[object]:
						stale++
					default:
						t.Errorf("%s is %s, and the destination took it: %t", id, e.State, s.taken[id])
					}
				}
			}
			t.Logf("%d events claimed in %v, ended after %v: %d versions were taken, %d were stale, %d requests were answered 500, %d kills",
				objects*orderedVersions, claimed, time.Since(began), len(s.taken), stale, s.faults, kills)
		})
	}
}

// deliver posts a body to a gateway until one has claimed it.
func deliver(t *testing.T, to func() string, body string) {
	eventually.Succeeds(t, "a gateway claims "+body, func() error {
		answer, err := http.Post("http://"+to()+"/webhooks/lab", "application/json", strings.NewReader(body))
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

// orderedBodies returns the bodies of an object's events. Their versions are out of order, by some places.
func orderedBodies(o int) []string {
	at := make([]float64, orderedVersions)
	versions := make([]int, orderedVersions)
	for v := range versions {
		versions[v], at[v] = v, float64(v)+6*rand.Float64()
	}
	slices.SortFunc(versions, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	bodies := make([]string, orderedVersions)
	for i, v := range versions {
		bodies[i] = fmt.Sprintf(`{"id":"o%d_%d","object":"o%d","v":%d}`, o, v+1, o, v+1)
	}
	return bodies
}
