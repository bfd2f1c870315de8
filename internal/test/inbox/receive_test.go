package inbox_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestPathsThatNameNoSource(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	for _, path := range []string{
		"/", "/webhooks", "/webhooks/", "/webhooks/other", "/webhooks/gh/", "//webhooks/gh", "/webhooks//gh",
		"/x/../webhooks/gh", "/webhooks%2Fgh", "/webhooks/%67h", "/webhooks/gh%00", "/webhooks/GH",
	} {
		u, err := url.Parse("http://example.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := deliver(in, delivery("1", "{}", func(r *http.Request) { r.URL = u })); got.Code != 404 {
			t.Errorf("%s: answer %d, want 404", path, got.Code)
		}
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	t.Parallel()
	broken := true
	store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: func(context.Context, *driver.ClaimParams) error {
		if broken {
			panic("a defect of the store")
		}
		return nil
	}}
	in := newEngine(t, store, func(c *hookonce.Config) {
		routed(c)
		c.Routes[0].Where = func(*hookonce.Event) (bool, error) { panic("a defect of the route") }
	})
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Errorf("a delivery while the store panics: %+v, want 503", got)
	}
	broken = false
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("a delivery afterwards: %+v, want ok", got)
	}
	if ev := eventState(t, store, "1"); ev.State != driver.StateDone || ev.Note != driver.NoteNoRoute {
		t.Errorf("the event whose route panicked: state %s, note %q; want done without a route", ev.State, ev.Note)
	}
}

// panickingStore is a store with defects that a delivery meets in the goroutine of its request.
type panickingStore struct{ driver.Driver[*sql.Tx] }

func (panickingStore) Quarantine(context.Context, *driver.QuarantineParams) error { panic("a defect") }

func (panickingStore) Confirm(context.Context) error { panic("a defect") }

func TestPanicsOfTheRequestAreAnswered(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	l.db = panickingStore{l.db}
	in := inbox(t, l, nil, nil)
	nameless := func() *http.Request { return delivery("", "{}") } // without an event id: for the quarantine
	for name, w := range map[string]*httptest.ResponseRecorder{
		"ServeHTTP": answered(in, nameless()),
		"Refuse":    receiveInTx(t, l, in, nameless(), nil),
		"Accept":    receiveInTx(t, l, in, delivery("1", "{}"), nil),
	} {
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: the answer is %d with Retry-After %q, want 503 with a time", name, w.Code, w.Header().Get("Retry-After"))
		}
		if strings.Contains(w.Body.String(), "defect") {
			t.Errorf("%s: the answer tells the sender about the defect: %s", name, w.Body)
		}
	}
}

// A delivery that is refused before its body is read does not wait for the body.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	in.Drain()
	server := httptest.NewServer(in)
	t.Cleanup(server.Close)
	for path, want := range map[string]int{"/webhooks/gh": 503, "/webhooks/other": 404} {
		var resp *http.Response
		eventually.Succeeds(t, "an answer before the limit for a body", func() error {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				return err
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(8 * time.Second)); err != nil {
				return err
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", path)
			if resp, err = http.ReadResponse(bufio.NewReader(conn), nil); err != nil { //nolint:bodyclose // it is closed below
				return err
			}
			return resp.Body.Close()
		})
		if resp.StatusCode != want || !resp.Close {
			t.Errorf("%s: answer %d, closes the connection: %t; want %d and true", path, resp.StatusCode, resp.Close, want)
		}
	}
}

// Limits by address count the client that a trusted proxy names, and nothing that another names.
func TestLimitsSeeTheClientBehindAProxy(t *testing.T) {
	t.Parallel()
	log := new(rig.Log)
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.UnverifiedRate = hookonce.Rate{Count: 1, Per: time.Hour}
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		c.Logger = log.Logger()
	})
	forged := func(peer, client string) int {
		return deliver(in, delivery("1", "{}", forge, func(r *http.Request) {
			r.RemoteAddr = peer
			r.Header.Set("X-Forwarded-For", "192.0.2.99, "+client)
		})).Code
	}
	for i, tt := range []struct {
		peer, client string
		want         int
	}{
		{"10.0.0.1:1", "198.51.100.1", 401},
		{"10.0.0.2:1", "198.51.100.1, 10.0.0.1", 429}, // the same client by another way
		{"10.0.0.1:1", "198.51.100.2", 401},
		{"10.0.0.1:1", "2001:db8::1", 401},
		{"10.0.0.1:1", "2001:db8::2", 429}, // the same /64
		{"203.0.113.7:1", "198.51.100.3", 401},
		{"203.0.113.7:1", "198.51.100.4", 429}, // no proxy of ours
		{"10.0.0.1:1", "unknown", 401},
		{"10.0.0.1:2", "garbage", 429}, // the connection's address
	} {
		if got := forged(tt.peer, tt.client); got != tt.want {
			t.Errorf("forgery %d, of %s by %s: %d, want %d", i, tt.client, tt.peer, got, tt.want)
		}
	}
	if text := log.Text(); !strings.Contains(text, "remote=198.51.100.1 ") || strings.Contains(text, "192.0.2.99") {
		t.Errorf("the log names other clients:\n%s", text)
	}
}

// timedWriter notes the deadlines of the body.
type timedWriter struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (w *timedWriter) SetReadDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return nil
}

// A body has ten seconds, and one more for each 256 KiB that have arrived, whatever size it claims to have.
func TestTimeForTheBody(t *testing.T) {
	t.Parallel()
	const second = 256 << 10
	for name, tt := range map[string]struct {
		size int
		want []time.Duration
	}{
		"small": {1000, nil},
		"large": {3*second + 1, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprint(name, chunked), func(t *testing.T) {
				t.Parallel()
				in := newEngine(t, rig.OpenSQLite(t), nil)
				r := delivery("1", strings.Repeat(" ", tt.size)+"{}")
				r.Body = io.NopCloser(iotest.HalfReader(r.Body))
				if chunked {
					r.ContentLength = -1
				}
				w := &timedWriter{ResponseRecorder: httptest.NewRecorder()}
				in.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					t.Errorf("answered %d: %s", w.Code, w.Body)
				}
				var got []time.Duration
				for _, d := range w.deadlines[1:] {
					if more := d.Sub(w.deadlines[0]); !d.IsZero() && more > 0 && (len(got) == 0 || got[len(got)-1] != more) && more < time.Minute {
						got = append(got, more)
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("more time (-want +got):\n%s", diff)
				}
			})
		}
	}
}
