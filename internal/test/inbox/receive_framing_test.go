package inbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// A proxy may believe one of two framings, and hookonce the other. Then the rest of the body would
// be the next request of the connection, so the connection must not serve another one.
func TestConnectionOfARequestFramedTwice(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	for name, h := range map[string]http.HandlerFunc{
		"ServeHTTP": in.ServeHTTP,
		"Verify": func(w http.ResponseWriter, r *http.Request) {
			if _, err := in.Verify(w, r); err != nil {
				in.Refuse(w, r, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closesConnections(t, h)
		})
	}
}

func closesConnections(t *testing.T, h http.Handler) {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	const body = `{"a":1}`
	signature := delivery("", body).Header.Get(githubSignature)
	head := func(version, id, framing string) string {
		return "POST /webhooks/gh HTTP/" + version + "\r\nHost: x\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: " + id +
			"\r\n" + githubSignature + ": " + signature + "\r\n" + framing + "\r\n"
	}
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for _, tt := range []struct {
		name, request string
		open          bool
	}{
		{"length", head("1.1", "1", length) + body, true},
		{"length and chunked", head("1.1", "2", length+"Transfer-Encoding: chunked\r\n") + chunks, false},
		{"chunked and length", head("1.1", "3", "Transfer-Encoding: chunked\r\n"+length) + chunks, false},
		{"another length and chunked", head("1.1", "4", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + chunks, false},
		{"length and chunked in HTTP/1.0", head("1.0", "5", "Connection: keep-alive\r\n"+length+"Transfer-Encoding: chunked\r\n") + body, false},
		// net/http hides the length from handlers, so these cost their connection too.
		{"chunked", head("1.1", "6", "Transfer-Encoding: chunked\r\n") + chunks, false},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(eventually.Bound)); err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(conn)
		if status, err := exchange(conn, answers, tt.request); err != nil || status != http.StatusOK {
			t.Fatalf("%s: the answer is %d, %v, want 200", tt.name, status, err)
		}
		status, err := exchange(conn, answers, head("1.1", "next of "+tt.name, length)+body)
		switch {
		case tt.open && (err != nil || status != http.StatusOK):
			t.Errorf("%s: the next request on the connection: %d, %v, want 200", tt.name, status, err)
		case !tt.open && err == nil:
			t.Errorf("%s: the next request on the connection was answered %d, want a closed connection", tt.name, status)
		}
	}
}

// exchange writes a request and reads its answer. The error is that of a closed connection.
func exchange(conn net.Conn, answers *bufio.Reader, request string) (int, error) {
	_, writeErr := io.WriteString(conn, request)
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		return 0, errors.Join(writeErr, err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// Many senders write all of a body before they read the answer. A connection that is closed before would give
// them an error of the network, and not the answer.
func TestAnswerBeforeTheBodyHasArrived(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Sources[0].MaxBody = 1 << 20 })
	server := httptest.NewServer(in)
	t.Cleanup(server.Close)
	const size = 8 << 20
	length := fmt.Sprintf("Content-Length: %d\r\n", size)
	for name, tt := range map[string]struct {
		source, framing string
		want            int
	}{
		"too long":             {"gh", length, http.StatusRequestEntityTooLarge},
		"too long, in chunks":  {"gh", "Transfer-Encoding: chunked\r\n", http.StatusRequestEntityTooLarge},
		"no such source":       {"nobody", length, http.StatusNotFound},
		"encoding not allowed": {"gh", "Content-Encoding: br\r\nTransfer-Encoding: chunked\r\n", http.StatusUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(eventually.Bound)); err != nil {
				t.Fatal(err)
			}
			body := strings.Repeat("x", size)
			if strings.Contains(tt.framing, "chunked") {
				body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
			}
			if _, err := io.WriteString(conn, "POST /webhooks/"+tt.source+" HTTP/1.1\r\nHost: x\r\n"+tt.framing+"\r\n"+body); err != nil {
				t.Fatalf("writing the body: %v", err)
			}
			status, err := exchange(conn, bufio.NewReader(conn), "")
			if err != nil || status != tt.want {
				t.Errorf("answered %d, %v, want %d", status, err, tt.want)
			}
		})
	}
}
