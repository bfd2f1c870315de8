package inbox_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/rig"
)

// A proxy may believe one of two framings, and hookonce the other. Then the rest of the body would
// be the next request of the connection, so the connection must not serve another one.
func TestConnectionOfARequestFramedTwice(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), nil)
	t.Run("ServeHTTP", func(t *testing.T) {
		t.Parallel()
		closesConnections(t, in)
	})
	t.Run("Verify", func(t *testing.T) {
		t.Parallel()
		closesConnections(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := in.Verify(w, r); err != nil {
				in.Refuse(w, r, err)
			}
		}))
	})
}

func closesConnections(t *testing.T, h http.Handler) {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	const body = `{"a":1}`
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	signature := hex.EncodeToString(mac.Sum(nil))
	head := func(version, id, framing string) string {
		return "POST /webhooks/gh HTTP/" + version + "\r\nHost: x\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: " + id +
			"\r\nX-Hub-Signature-256: sha256=" + signature + "\r\n" + framing + "\r\n"
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
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewReader(conn)
			if status, err := exchange(conn, answers, tt.request); err != nil || status != http.StatusOK {
				t.Fatalf("the answer is %d, %v, want 200", status, err)
			}
			status, err := exchange(conn, answers, head("1.1", "next of "+tt.name, length)+body)
			switch {
			case tt.open && (err != nil || status != http.StatusOK):
				t.Errorf("the next request on the connection: %d, %v, want 200", status, err)
			case !tt.open && err == nil:
				t.Errorf("the next request on the connection was answered %d, want a closed connection", status)
			}
		})
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
