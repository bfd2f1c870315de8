package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawPatience bounds a raw conversation. It is longer than every timeout of the gateway.
const rawPatience = 40 * time.Second

// ending is a raw client's next step after its request.
type ending int

const (
	waits      ending = iota // for the answer
	halfCloses               // its side, and waits for the answer
)

// raw is a request in bytes and its expected answer.
type raw struct {
	name    string
	request string
	ending  ending
	want    string // a status, or "closed" for no answer
}

// rawRequest makes a signed request and turns the line feeds of head into CRLF. In head, {signed}
// stands for GitHub's headers, {body} and {length} for the body.
func rawRequest(id, head string) string {
	body := rawBody(id)
	return strings.NewReplacer(
		"\n", "\r\n",
		"{lf}", "\n", "{cr}", "\r", "{nul}", "\x00",
		"{signed}", "X-GitHub-Delivery: "+id+"\r\nX-GitHub-Event: push\r\nX-Hub-Signature-256: "+githubSignature(body),
		"{signature}", githubSignature(body),
		"{body}", body,
		"{length}", fmt.Sprint(len(body)),
		"{hexlength}", fmt.Sprintf("%x", len(body)),
	).Replace(head)
}

// rawBody returns bodies of the same length for ids of the same length.
func rawBody(id string) string { return `{"id":"` + id + `"}` }

// talk writes a request and returns the status of the answer, or "closed".
func talk(address, request string, end ending) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	return talkOn(conn, request, end)
}

// talkOn is talk on a connection, which it closes.
func talkOn(conn net.Conn, request string, end ending) (string, error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(rawPatience)); err != nil {
		return "", err
	}
	// A refusal may come, and the connection close, before all is written.
	_, writeErr := io.WriteString(conn, request)
	if end == halfCloses && writeErr == nil {
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			return "", err
		}
	}
	method, _, _ := strings.Cut(request, " ")
	return readStatus(conn, method)
}

func readStatus(conn net.Conn, method string) (string, error) {
	answers := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(answers, &http.Request{Method: method})
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			return "", fmt.Errorf("neither an answer nor a close within %s", rawPatience)
		case err != nil:
			return "closed", nil
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return "", fmt.Errorf("the body of the %d: %w", resp.StatusCode, err)
		}
		if resp.StatusCode == http.StatusContinue {
			continue
		}
		if _, err := readAnswer(method, resp, body); err != nil && !answeredByLibrary(resp) {
			return "", err
		}
		return fmt.Sprint(resp.StatusCode), nil
	}
}

// answeredByLibrary reports whether net/http itself refused the request: its answers have no
// problem as body, and reveal nothing internal either.
func answeredByLibrary(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusExpectationFailed, http.StatusRequestHeaderFieldsTooLarge,
		http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") || resp.ContentLength == 0
	}
	return false
}

// TestRawHTTP sends the gateway requests that HTTP clients do not make: broken framing, odd paths,
// stalls. Only an answer 200 leaves an event.
func TestRawHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	g := w.start(t)
	g.speakRaw(t, func() (net.Conn, error) { return net.Dial("tcp", g.public) })
	g.expect(t, push("after"), "200 ok") // the gateway still works
}

// speakRaw makes all raw requests over connections of dial.
func (g *gateway) speakRaw(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	cases := append(framing(), paths()...)
	var conversations sync.WaitGroup
	for i, c := range cases {
		id := fmt.Sprintf("raw-%03d", i)
		conversations.Go(func() {
			conn, err := dial()
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				return
			}
			got, err := talkOn(conn, rawRequest(id, c.request), c.ending)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			} else if got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		})
	}
	conversations.Wait()
	listed := make(map[string]bool)
	for _, ev := range g.events(t, "") {
		listed[ev.EventID] = true
	}
	for i, c := range cases {
		if id := fmt.Sprintf("raw-%03d", i); listed[id] != (c.want == "200") {
			t.Errorf("%s: the event exists: %t, but the answer should be %s", c.name, listed[id], c.want)
		}
	}
}

// A forged request has a good one behind it on the same connection, hidden behind the first one's
// length. The gateway never reads the second.
func TestLeftOversAreNotARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	g := w.start(t)
	hidden := rawRequest("hidden", good)
	outer := "POST /webhooks/github HTTP/1.1\r\nHost: x\r\nX-GitHub-Delivery: outer\r\nX-GitHub-Event: push\r\n" +
		"X-Hub-Signature-256: " + githubSignature("{}") + "\r\nContent-Length: 1\r\n\r\n{"
	got, err := talk(g.public, outer+hidden, waits)
	if err != nil || got != "401" {
		t.Errorf("%s, %v, want 401", got, err)
	}
	if all := g.events(t, ""); len(all) != 0 {
		t.Errorf("events %+v, want none", all)
	}
}

func TestClientHangsUp(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		for i := range 5 {
			id := fmt.Sprintf("gone-%d", i)
			conn, err := net.Dial("tcp", g.public)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, rawRequest(id, good)); err != nil {
				t.Error(err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			g.waitState(t, "github", id, "done")
			retry := githubDelivery(id, "push", rawBody(id))
			g.expect(t, retry, "200 duplicate")
			if got := w.sink.requests(id); len(got) != 1 {
				t.Errorf("%s: %d forwarded requests, want 1", id, len(got))
			}
		}
	})
}

// The client disconnects while its claim waits for another session's lock.
func TestClientHangsUpDuringTheClaim(t *testing.T) {
	t.Parallel()
	w, g := startWithModel(t)
	tx := holdKey(t, w, "gone")
	conn, err := net.Dial("tcp", g.public)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, rawRequest("gone", good)); err != nil {
		t.Fatal(err)
	}
	waiting := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	watcher := w.db.open(t)
	saw := false
	g.Eventually(t, "the claim waits for the lock, or has given up", func() bool {
		saw = saw || number(t, watcher, waiting) > 0
		return saw
	})
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	// If the lock is freed in time, the claim is made; otherwise the sender's retry makes it.
	// Either way the event is stored once.
	retry := githubDelivery("gone", "push", rawBody("gone"))
	if a := g.deliver(t, retry); a.status != http.StatusOK {
		t.Errorf("the retry: %s, want 200", a.short())
	}
	g.waitState(t, "github", "gone", "done")
	if got := w.sink.requests("gone"); len(got) != 1 {
		t.Errorf("%d forwarded requests, want 1", len(got))
	}
}

func TestClientHalfCloses(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		for i := range 5 {
			id := fmt.Sprintf("half-%d", i)
			got, err := talk(g.public, rawRequest(id, good), halfCloses)
			if err != nil || got != "200" {
				t.Errorf("%s: %s, %v, want 200", id, got, err)
			}
			g.waitState(t, "github", id, "done")
		}
	})
}
