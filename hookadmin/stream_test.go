package hookadmin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// streaming is a gateway that runs, on real listeners.
type streaming struct {
	store         driver.Store
	public, admin *httptest.Server
	clients       chan int
}

// newStreaming runs a gateway on a store. The destination billing refuses the event "bad" for good.
func newStreaming(t *testing.T, store driver.Store) *streaming {
	t.Helper()
	billing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "bad") {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(billing.Close)
	engine := newEngine(t, store, &hookonce.Config{
		Sources:      []hookonce.Source{{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id", Type: "body:type"}}},
		Destinations: []hookonce.Destination{{Name: "billing", URL: billing.URL, AllowPrivate: true}},
		Routes:       []hookonce.Route{{Name: "billing", Types: []string{"invoice.*"}, To: "billing"}},
	})
	s := &streaming{store: store, clients: make(chan int, 10_000), public: httptest.NewServer(engine)}
	t.Cleanup(s.public.Close)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := engine.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	api := newAPI(t, func(cfg *hookadmin.Config) {
		cfg.Store, cfg.Engine, cfg.StreamClients = store, engine, func(n int) { s.clients <- n }
		cfg.Logger = slog.New(slog.DiscardHandler)
	})
	s.admin = httptest.NewUnstartedServer(api.handler)
	s.admin.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		_ = conn.(*net.TCPConn).SetWriteBuffer(64 << 10) // little is written to a client that does not read
		return ctx
	}
	s.admin.Start()
	t.Cleanup(s.admin.Close)
	return s
}

func (s *streaming) deliver(t *testing.T, id string) {
	t.Helper()
	resp, err := http.Post(s.public.URL+"/webhooks/lab", "application/json", strings.NewReader(fmt.Sprintf(`{"id":%q,"type":"invoice.paid"}`, id)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// sse is one item of a stream.
type sse struct {
	id, event, data string
}

// reading is an open stream.
type reading struct {
	items chan sse // closed at its end
	close func()
}

// open opens a stream with header lines of the form "Name: value".
func (s *streaming) open(t *testing.T, query string, header ...string) *reading {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin.URL+"/api/v1/stream"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r) //nolint:bodyclose // closed by reading.close
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("GET %s: %d %s", r.URL, resp.StatusCode, got)
	}
	out := &reading{items: make(chan sse, 10_000), close: func() {
		cancel()
		resp.Body.Close()
	}}
	t.Cleanup(out.close)
	go out.read(resp.Body)
	return out
}

// read reads items as browsers do: those without data only move the id.
func (r *reading) read(from io.Reader) {
	defer close(r.items)
	var item sse
	for lines := bufio.NewScanner(from); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "":
			if lines.Text() == "" {
				r.items <- item
				item = sse{id: item.id}
			}
		case "id":
			item.id = value
		case "event":
			item.event = value
		case "data":
			item.data = value
		}
	}
}

// next returns the next item.
func (r *reading) next(t *testing.T) sse {
	t.Helper()
	item, ok := eventually.Next(t, "the next item of the stream", r.items)
	if !ok {
		t.Fatal("the stream has ended")
	}
	return item
}

// rows returns the next n rows as "event source event_id outcome", sorted if there are a few: an
// attempt may end before its delivery is answered. It passes over those of warm.
func (r *reading) rows(t *testing.T, n int) (rows []string, last string) {
	t.Helper()
	for len(rows) < n {
		item := r.next(t)
		if last = item.id; item.data == "" {
			continue
		}
		var row hookadmin.StreamRow
		if err := json.Unmarshal([]byte(item.data), &row); err != nil {
			t.Fatalf("%+v: %v", item, err)
		}
		var v any
		_ = json.Unmarshal([]byte(item.data), &v) // it was read just now
		if err := document().Components.Schemas["StreamRow"].check(v); err != nil && item.event != "reload" {
			t.Errorf("%s differs from its description: %v", item.data, err)
		}
		if item.event != row.Kind && item.event != "reload" {
			t.Errorf("the event %q has the data %s", item.event, item.data)
		}
		if strings.HasPrefix(row.EventID, "warm_") {
			continue
		}
		rows = append(rows, strings.Join([]string{item.event, row.Source, row.EventID, row.Outcome}, " "))
	}
	if n < 10 {
		slices.Sort(rows)
	}
	return rows, last
}

// warm delivers until the stream shows it: by then the engine of s knows that somebody looks.
func (s *streaming) warm(t *testing.T, r *reading) {
	t.Helper()
	for i := 0; ; i++ {
		s.deliver(t, fmt.Sprint("warm_", i))
		select {
		case item := <-r.items:
			if item.data != "" {
				s.flush(t, r)
				return
			}
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// flush reads rows until those of another delivery have been read.
func (s *streaming) flush(t *testing.T, r *reading) {
	t.Helper()
	s.deliver(t, "warm_last")
	for seen := 0; seen < 2; {
		if strings.Contains(r.next(t).data, "warm_last") {
			seen++ // its delivery, and its attempt
		}
	}
}

// add writes rows to the feed.
func (s *streaming) add(t *testing.T, rows ...driver.FeedRow) {
	t.Helper()
	for i := range rows {
		rows[i].At = noon
		if rows[i].Details == nil {
			rows[i].Details = []byte("{}")
		}
	}
	if left, err := s.store.AddFeed(t.Context(), &driver.AddFeedParams{Rows: rows}); err != nil || left == 0 {
		t.Fatalf("AddFeed = %v, %v", left, err)
	}
}

// TestStream follows events from their delivery to their end.
func TestStream(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, rig.OpenSQLite(t))
	r := s.open(t, "")
	s.warm(t, r)
	refused := s.open(t, "?kind=refused")
	attempts := s.open(t, "?destination=billing&outcome=dead")
	s.deliver(t, "evt_1")
	rows, _ := r.rows(t, 2)
	if diff := cmp.Diff([]string{"attempt lab evt_1 sent", "delivery lab evt_1 ok"}, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.deliver(t, "evt_1")
	if rows, _ := r.rows(t, 1); rows[0] != "delivery lab evt_1 duplicate" {
		t.Errorf("the duplicate is %q", rows)
	}
	s.deliver(t, "bad")
	rows, _ = r.rows(t, 2)
	if diff := cmp.Diff([]string{"attempt lab bad dead", "delivery lab bad ok"}, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	resp, err := http.Get(s.public.URL + "/webhooks/lab")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for name, got := range map[string]*reading{"refused": refused, "attempts": attempts} {
		want := map[string]string{"refused": "refused lab  refused", "attempts": "attempt lab bad dead"}[name]
		if rows, _ := got.rows(t, 1); rows[0] != want {
			t.Errorf("the stream of %s has %q, want %q", name, rows[0], want)
		}
	}
}

// TestStreamResumes: a client that comes back, by header or parameter, misses nothing and gets
// nothing twice. Rows that a filter left out are not read again.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, rig.OpenSQLite(t))
	r := s.open(t, "")
	start := r.next(t).id
	for i := range 250 {
		s.add(t, driver.FeedRow{Source: fmt.Sprint("s", i%2), EventID: fmt.Sprint(i), Outcome: "ok"})
	}
	s.add(t, driver.FeedRow{Source: "rare", EventID: "last", Outcome: "ok"})
	if rows, _ := s.open(t, "?source=rare&cursor="+start).rows(t, 1); rows[0] != "delivery rare last ok" {
		t.Errorf("behind many other rows comes %q", rows)
	}
	for query, n := range map[string]int{"": 250, "&source=s1": 125, "&source=s0": 125} {
		var all []string
		for last := start; len(all) < n; {
			r := s.open(t, "?cursor="+start+query, "Last-Event-ID: "+last) // the header goes before
			var some []string
			some, last = r.rows(t, min(60, n-len(all)))
			all = append(all, some...)
			r.close()
		}
		for i, row := range all {
			id := i
			if n == 125 {
				id = 2*i + int(query[len(query)-1]-'0')
			}
			if want := fmt.Sprintf("delivery s%d %d ok", id%2, id); row != want {
				t.Fatalf("%q: row %d is %q, want %q", query, i, row, want)
			}
		}
	}
	r.close()
}

// TestStreamReload: a client with a place whose rows are gone is told to reload, and goes on from now.
func TestStreamReload(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, rig.OpenSQLite(t))
	r := s.open(t, "?cursor=1")
	first, second := r.next(t), r.next(t)
	if first.id != "1" || second.event != "reload" || second.data != "{}" {
		t.Errorf("the stream begins with %+v and %+v, want a reload", first, second)
	}
	s.add(t, driver.FeedRow{EventID: "evt_1", Outcome: "ok"})
	if rows, _ := r.rows(t, 1); rows[0] != "delivery  evt_1 ok" {
		t.Errorf("after the reload comes %q", rows)
	}
}

// TestStreamDropped tells of rows that were left out, also when the filter hides the row that says so.
func TestStreamDropped(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, rig.OpenSQLite(t))
	all, some := s.open(t, ""), s.open(t, "?source=b")
	all.next(t)
	some.next(t)
	details := func(d *feed.Details) []byte {
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	s.add(t, driver.FeedRow{Source: "a", EventID: "1", Outcome: "ok", Details: details(&feed.Details{Dropped: 7, Error: `</script> "}`})},
		driver.FeedRow{Source: "b", EventID: "2", Outcome: "ok", Details: details(&feed.Details{Dropped: 5, Count: 3})},
		driver.FeedRow{Source: "b", EventID: "3", Outcome: "ok"})
	for name, tt := range map[string]struct {
		from *reading
		want []int
	}{"all": {all, []int{7, 5, 0}}, "some": {some, []int{12, 0}}} {
		for _, want := range tt.want {
			item := tt.from.next(t)
			var row hookadmin.StreamRow
			if err := json.Unmarshal([]byte(item.data), &row); err != nil || row.Dropped != want {
				t.Errorf("%s: %s: %d are left out, want %d; %v", name, item.data, row.Dropped, want, err)
			}
		}
	}
}

// TestStreamIsRefused names the fault of each request.
func TestStreamIsRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for query, want := range map[string]string{
		"?kind=deliveries":             "use delivery, event, attempt, refused",
		"?outcome=fine":                "use ok, duplicate",
		"?cursor=x":                    "cursor: ",
		"?cursor=-1":                   "cursor: ",
		"?cursor=0":                    "cursor: ",
		"?cursor=1e5":                  "cursor: ",
		"?cursor=99999999999999999999": "cursor: ",
		"?limit=5":                     "unknown parameter",
		"?source=a&source=b":           "more than once",
		"?source=%00":                  "source: ",
		"?source=%zz":                  "query string",
	} {
		wantDetail(t, g.get(t, "/api/v1/stream"+query), http.StatusBadRequest, want)
	}
	resp := g.do(t, http.MethodGet, "/api/v1/stream", func(r *http.Request) { r.Header.Set("Last-Event-ID", "evt_1") })
	wantDetail(t, resp, http.StatusBadRequest, "Last-Event-ID: ")
}

// TestStreamClients: one client too many is told to come back, and the number of clients is known.
func TestStreamClients(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, rig.OpenSQLite(t))
	var all []*reading
	for range feed.MaxClients {
		all = append(all, s.open(t, ""))
	}
	resp, err := http.Get(s.admin.URL + "/api/v1/stream")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one client too many is answered %d with Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	for _, r := range all {
		r.close()
	}
	most := 0
	for n := -1; n != 0; most = max(most, n) {
		n = eventually.Receive(t, "the streams end when their clients leave", s.clients)
	}
	if most != feed.MaxClients {
		t.Errorf("%d clients at most, want %d", most, feed.MaxClients)
	}
}

// TestStreamEndsWithItsServer: a shutdown does not wait for streams.
func TestStreamEndsWithItsServer(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, rig.OpenSQLite(t))
	r := s.open(t, "")
	r.next(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	if err := s.admin.Config.Shutdown(ctx); err != nil {
		t.Errorf("the shutdown waited for the stream: %v", err)
	}
	for range r.items { //nolint:revive // until its end
	}
}

// TestSlowStream: a client that does not read is dropped, and can resume.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	s := newStreaming(t, rig.OpenSQLite(t))
	conn, err := net.Dial("tcp", s.admin.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /api/v1/stream HTTP/1.1\r\nHost: %s\r\n\r\n", s.admin.Listener.Addr())
	eventually.True(t, "the feed is watched", func() bool {
		left, err := s.store.FeedWatched(t.Context())
		return err == nil && left > 0
	})
	if n := <-s.clients; n != 1 {
		t.Fatalf("%d clients, want 1", n)
	}
	big := driver.FeedRow{EventID: strings.Repeat("e", driver.MaxFeedText), Type: strings.Repeat("t", driver.MaxFeedText), Outcome: "ok"}
	eventually.True(t, "a client that does not read is dropped", func() bool {
		rows := make([]driver.FeedRow, 200)
		for i := range rows {
			rows[i] = big
		}
		s.add(t, rows...)
		select {
		case n := <-s.clients:
			if n != 0 {
				t.Errorf("%d clients, want 0", n)
			}
			return true
		case <-time.After(2 * time.Second): // some of these rows come before the stream begins
			return false
		}
	})
}
