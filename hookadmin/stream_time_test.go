package hookadmin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// streamLimit is how late a row may be.
const streamLimit = 2 * time.Second

// flushed is the client of a stream: it gets each flush at once.
type flushed struct {
	header http.Header
	buf    strings.Builder
	out    chan string
}

func (f *flushed) Header() http.Header         { return f.header }
func (f *flushed) WriteHeader(int)             {}
func (f *flushed) Write(p []byte) (int, error) { return f.buf.Write(p) }
func (f *flushed) Flush()                      { f.out <- f.buf.String(); f.buf.Reset() }

// TestStreamIsInTime: a delivery and the attempt to send it are on the stream within 2 s. The clock stands
// still while a goroutine works, so the test measures the waits of the program and not the machine.
func TestStreamIsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := rig.OpenSQLite(t)
		engine := newEngine(t, store, &hookonce.Config{
			Sources:      []hookonce.Source{{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}}},
			Destinations: []hookonce.Destination{{Name: "app", Sender: hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error { return nil })}},
			Routes:       []hookonce.Route{{Name: "all", To: "app"}},
		})
		api := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine })
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := engine.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		client := &flushed{header: http.Header{}, out: make(chan string, 1000)}
		running.Go(func() {
			api.handler.ServeHTTP(client, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8081/api/v1/stream", http.NoBody))
		})
		synctest.Wait() // the viewer is known here; the stream has not begun
		opened, early := time.Now(), httptest.NewRecorder()
		engine.ServeHTTP(early, httptest.NewRequest(http.MethodPost, "/webhooks/lab", strings.NewReader(`{"id":"evt_early"}`)))
		client.await(t, "evt_early", opened)
		for i := range 25 {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond) // to another place between two ticks
			id, began := fmt.Sprint("evt_", i), time.Now()
			w := httptest.NewRecorder()
			engine.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/webhooks/lab", strings.NewReader(`{"id":"`+id+`"}`)))
			if w.Code != http.StatusOK {
				t.Fatalf("answer %d %s", w.Code, w.Body)
			}
			if took := client.await(t, id, began); took > streamLimit {
				t.Errorf("%s is on the stream after %s, want at most %s", id, took, streamLimit)
			}
		}
		stop()
		running.Wait()
	})
}

// await reads until the delivery and the attempt of an event are there, and returns the age of the later one.
func (f *flushed) await(t *testing.T, id string, began time.Time) time.Duration {
	t.Helper()
	for seen := map[string]bool{}; !seen["delivery"] || !seen["attempt"]; {
		for line := range strings.Lines(eventually.Receive(t, fmt.Sprintf("%s: more than %v on the stream", id, seen), f.out)) {
			data, isData := strings.CutPrefix(line, "data: ")
			var row hookadmin.StreamRow
			if isData && json.Unmarshal([]byte(data), &row) == nil && row.EventID == id {
				seen[row.Kind] = true
			}
		}
	}
	return time.Since(began)
}
