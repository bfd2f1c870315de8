package app

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// labSettings are the settings of a gateway on SQLite with an unsigned source, lab.
func labSettings(t *testing.T) *config.Settings {
	t.Helper()
	return settings(t, "database: sqlite:"+filepath.Join(t.TempDir(), "test.db")+
		"\nsources: {lab: {provider: none, event: {id: \"body:id\"}}}")
}

// labBody is the body of a delivery to lab.
const labBody = `{"id":"1"}`

// openDelivery begins a delivery to lab, and returns once the server waits for its body.
func openDelivery(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return conn, beginDelivery(t, conn)
}

// beginDelivery is openDelivery on a connection.
func beginDelivery(t *testing.T, conn net.Conn) *bufio.Reader {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(eventually.Bound)); err != nil {
		t.Fatal(err)
	}
	// The server asks for the body as soon as its handler reads it. From then on the delivery is
	// open.
	_, err := io.WriteString(conn, "POST /webhooks/lab HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusContinue {
		t.Fatalf("%s instead of 100 Continue", resp.Status)
	}
	return answers
}

// refuses waits until addr accepts no more connections.
func refuses(t *testing.T, addr string) {
	t.Helper()
	eventually.True(t, "no new connections to "+addr+" are accepted", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// A delivery whose body arrives during the stop is claimed like any other.
func TestStopClaimsArrivingDeliveries(t *testing.T) {
	t.Parallel()
	r := serve(t, labSettings(t))
	public := r.await(t, "listen")["listen"].(string)
	conn, answers := openDelivery(t, public)
	r.cancel()
	refuses(t, public)
	if _, err := io.WriteString(conn, labBody); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Status  string `json:"status"`
		EventID string `json:"event_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != http.StatusOK || got.Status != "ok" || got.EventID != "1" {
		t.Errorf("%s, %+v, %v, want 200 ok for the event 1", resp.Status, got, err)
	}
	if !resp.Close {
		t.Error("the connection is kept alive")
	}
	if err := r.wait(t); err != nil {
		t.Errorf("a clean stop ended with %v", err)
	}
}

// A stop ends when its time is over even if a request hangs, and then returns an error.
func TestStopIsForcedWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	s := labSettings(t)
	store, err := CreateStore(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g, err := newGateway(t.Context(), store, &Options{Settings: s, Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.limits = stopLimits{total: 100 * time.Millisecond, answer: 50 * time.Millisecond, drain: 50 * time.Millisecond}
	for _, l := range []*listener{g.public, g.admin} {
		go func() { _ = l.serve() }() // its error does not matter here
	}
	openDelivery(t, g.public.Addr().String()) // its body never arrives
	never := make(chan struct{})
	err = g.stop(func() {}, never, never)
	for _, want := range []string{"requests on " + g.public.Addr().String() + " were still open", "the stop was forced: messages were still being sent", "certificates were still being read"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if _, err := net.Dial("tcp", g.admin.Addr().String()); err == nil {
		t.Error("the admin listener is still open")
	}
}
