package bench

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
)

const (
	// forwardConcurrency is the number of requests to a destination at a time.
	forwardConcurrency = 64
	// backlogs is how many times more messages are forwarded than events are handled.
	backlogs = 5
)

// sink is a fast destination. It counts its requests and notes their times.
type sink struct {
	address string
	url     string
	want    int64

	got         atomic.Int64
	first, last atomic.Int64 // nanoseconds since 1970
	all         chan struct{}
}

func newSink(t testing.TB, want int) *sink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{address: listener.Addr().String(), url: "http://" + listener.Addr().String(), want: int64(want), all: make(chan struct{})}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // returns after Close
	t.Cleanup(func() { _ = server.Close() })
	return s
}

// newTLSSink returns a sink over TLS, and a file with its certificate.
func newTLSSink(t testing.TB, want int) (s *sink, certificate string) {
	t.Helper()
	s = &sink{want: int64(want), all: make(chan struct{})}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	s.address, s.url = server.Listener.Addr().String(), server.URL
	certificate = filepath.Join(t.TempDir(), "sink.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(certificate, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return s, certificate
}

// sinkRoute sends every event to the destination "sink".
const sinkRoute = "routes:\n  - {name: all, sources: [" + sourceName + "], to: sink}\n"

// destination returns the settings of s as the destination "sink", with more keys.
func (s *sink) destination(more string) string {
	return fmt.Sprintf("destinations:\n  sink: {url: %q, secret: \"a-secret-of-the-destination\", concurrency: %d%s}\n",
		s.url+"/hooks", forwardConcurrency, more)
}

func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	now := time.Now().UnixNano()
	s.first.CompareAndSwap(0, now)
	if s.got.Add(1) == s.want {
		s.last.Store(now)
		close(s.all)
	}
}

// perSecond waits for all requests and returns their rate, or 0 if some do not arrive.
func (s *sink) perSecond(p *process) float64 {
	select {
	case <-s.all:
	case <-p.Exited:
	case <-time.After(5 * time.Minute):
	}
	if s.last.Load() == 0 {
		return 0
	}
	return float64(s.want) / time.Duration(s.last.Load()-s.first.Load()).Seconds()
}

// forward compares the sending of due messages with a plain HTTP client that keeps no state.
func forward(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	messages := backlogs * s.events // the first second of a destination is slower: its connections are new
	const what = "forwarding a backlog to a fast HTTP destination, against a net/http client alone with the same concurrency"
	return &comparison{
		unit: "requests/s",
		contestants: []contestant{
			{"hookonce", func(t testing.TB) float64 {
				return onNewDatabase(t, server, func(t testing.TB, dsn string) float64 { return sendAll(t, dsn, messages) })
			}},
			{"hookonce on SQLite", func(t testing.TB) float64 { return sendAllOnSQLite(t, messages) }},
			{"net/http client", clientAlone(messages)},
		},
		rows: []row{
			{what: what, subject: "hookonce", baseline: "net/http client", want: 0.5},
			{what: "the same on SQLite", subject: "hookonce on SQLite", baseline: "net/http client", want: 0.5},
		},
	}
}

// forwardOverTLS compares kept connections with a new one for each message.
func forwardOverTLS(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	over := func(connections string) func(testing.TB) float64 {
		return func(t testing.TB) float64 {
			return onNewDatabase(t, server, func(t testing.TB, dsn string) float64 {
				claimWaiting(t, dsn, s.events)
				to, certificate := newTLSSink(t, s.events)
				return forwardAll(t, dsn, to, ", connections: "+connections, "SSL_CERT_FILE="+certificate)
			})
		}
	}
	return &comparison{
		unit:        "requests/s",
		contestants: []contestant{{"kept connections", over("keep")}, {"fresh connections", over("fresh")}},
		rows: []row{{
			what:    "forwarding a backlog over TLS on kept connections, against a new connection for each message",
			subject: "kept connections", baseline: "fresh connections", want: 3,
		}},
	}
}

func clientAlone(n int) func(testing.TB) float64 {
	return func(t testing.TB) float64 {
		to := newSink(t, n)
		client := startProcess(t, roleClient, clientVariable+"="+to.address+" "+strconv.Itoa(n))
		rate := to.perSecond(client)
		client.Kill()
		return failUnless(t, rate, "not all requests arrived")
	}
}

func failUnless(t testing.TB, rate float64, why string) float64 {
	t.Helper()
	if rate == 0 {
		t.Fatal(why)
	}
	return rate
}

// sendAll claims n events with one message each. It returns how many messages a gateway sends in a
// second.
func sendAll(t testing.TB, dsn string, n int) float64 {
	t.Helper()
	claimWaiting(t, dsn, n)
	rate := forwardAll(t, dsn, newSink(t, n), "")
	if sent := count(t, dsn, "SELECT count(*) FROM hookonce.message WHERE state = 2"); sent != n {
		t.Fatalf("%d messages are sent, want %d", sent, n)
	}
	return rate
}

// sendAllOnSQLite does the same on a new file.
func sendAllOnSQLite(t testing.TB, n int) float64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	claimMessages(t, store, n)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return forwardAll(t, "sqlite:"+path, newSink(t, n), "")
}

// claimWaiting claims n events with one message each, in a database that then settles.
func claimWaiting(t testing.TB, dsn string, n int) {
	t.Helper()
	store, pool := openStore(t, dsn)
	claimMessages(t, store, n)
	pool.Close()
	settle(t, dsn)
}

func claimMessages(t testing.TB, store driver.Store, n int) {
	t.Helper()
	claim(t, store, n, func(c *driver.Claim) {
		c.Work = driver.WorkNone
		c.Messages = []driver.NewMessage{{ID: driver.MessageID(c.Key, 0, "all"), Route: "all", Destination: "sink"}}
	})
}

// forwardAll has a gateway send all messages to a sink, and returns how many it sends in a second. keys are
// more keys of the destination, and env more variables of the gateway.
func forwardAll(t testing.TB, database string, to *sink, keys string, env ...string) float64 {
	t.Helper()
	gateway := startGateway(t, gatewaySettings(database, to.destination(keys)), env...)
	rate := to.perSecond(gateway)
	gateway.Stop(t)
	if to.got.Load() != to.want {
		t.Fatalf("%d requests, want %d", to.got.Load(), to.want)
	}
	return failUnless(t, rate, "not all messages arrived")
}

// clientVariable holds the settings of the role client: the address and the number of requests.
const clientVariable = "HOOKONCE_BENCH_CLIENT"

// sendAlone is the role client: it sends as many requests per second as it can.
func sendAlone() error {
	var address string
	var n int64
	if _, err := fmt.Sscan(os.Getenv(clientVariable), &address, &n); err != nil {
		return err
	}
	content := bytes.Repeat([]byte("0123456789ab"), 100)
	transport := &http.Transport{MaxIdleConnsPerHost: forwardConcurrency}
	client := &http.Client{Transport: transport, Timeout: 15 * time.Second}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range forwardConcurrency {
		wg.Go(func() {
			for next.Add(1) <= n {
				if err := post(client, "http://"+address+"/hooks", content); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func post(client *http.Client, url string, content []byte) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
