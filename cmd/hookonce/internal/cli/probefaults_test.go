package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A command of --effects that does not work costs the verdicts that it decides, and nothing else of the
// report.
func TestProbeReportsWithoutEffects(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "effects.sh")
	writeFile(t, script, `# effects.sh KIND DIR ID: the first id is that of the event that is never sent.
cd "$2" || exit
[ -e first ] || echo "$3" >first
again=$(cat "$3.asked" 2>/dev/null)
echo 1 >"$3.asked"
case "$1,$(cat first)" in
mind,"$3") echo 0 ;;
mind,*) if [ "$again" ]; then echo 0; else echo 1; fi ;;
others,*) if [ "$again" ] || [ "$(cat first)" != "$3" ]; then echo 3; else echo 0; fi ;;
esac
`)
	for name, tt := range map[string]struct{ effects, reason string }{
		"fails":              {"echo away >&2; exit 4 # {id}", "exit status 4: away"},
		"is silent":          {"true # {id}", "it printed nothing; it must print one number"},
		"prints words":       {"echo many # {id}", `it printed "many"; it must print one number`},
		"counts before":      {"echo 7 # {id}", "it printed 7 for an event that was never sent; it must count the event {id} alone"},
		"counts others":      {"sh '" + script + "' others '" + t.TempDir() + "' {id}", "it printed 3 for an event that was never sent; it must count the event {id} alone"},
		"changes its answer": {"sh '" + script + "' mind '" + t.TempDir() + "' {id}", "it printed 1, then 0, for the same event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := probeAnswers(t, func(http.ResponseWriter, *http.Request) {})
			args := []string{"probe", url, "--provider", "stripe", "--secret", "whsec_test_secret", "--effects", tt.effects, "--wait", "1ms", "--checks"}
			stdout, stderr := runHere(t, 1, append(args, "valid,duplicate,slow-body", "--json")...)
			r := readProbe(t, stdout)
			if diff := cmp.Diff([]string{"valid", "duplicate"}, r.named("unknown")); diff != "" {
				t.Errorf("unknown (-want +got):\n%s\n%s", diff, stdout)
			}
			for _, c := range r.Checks[:2] {
				if c.Why != "--effects: "+tt.reason+"." || !strings.HasSuffix(c.Fix, "docs/five-minute-test.md#effects") {
					t.Errorf("%s: why %q, fix %q", c.Name, c.Why, c.Fix)
				}
			}
			if diff := cmp.Diff([]string{"slow-body"}, r.named("pass")); diff != "" {
				t.Errorf("passed (-want +got):\n%s", diff)
			}
			want := "Error: 2 checks could not be decided: --effects: " + tt.reason + "\nTry: run the command of --effects by hand, " +
				"with an id in the place of {id}: it must print one number\n"
			if stderr != want {
				t.Errorf("stderr is %q, want %q", stderr, want)
			}
			_, stderr = runHere(t, 1, append(args, "valid,tampered")...)
			if want := "Error: 1 check failed, and 1 other could not be decided: --effects: " + tt.reason + "\nTry: mend the command of --effects, "; name != "changes its answer" && !strings.HasPrefix(stderr, want) {
				t.Errorf("stderr is %q, want %q", stderr, want)
			}
		})
	}
}

// answersRaw starts a server that reads the head of a request and answers with text.
func answersRaw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test ends
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 64<<10))
				answer(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// A valid event that is not accepted is blamed on its cause, in the report and in the last lines. The
// probe does not go on with checks that would show nothing.
func TestProbeBlamesTheCause(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	t.Cleanup(func() { close(open) })
	status := func(code int) string {
		return answersRaw(t, func(conn net.Conn) { fmt.Fprintf(conn, "HTTP/1.1 %d Said\r\nContent-Length: 0\r\n\r\n", code) })
	}
	secured := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secured.Config.ErrorLog = log.New(io.Discard, "", 0) // of the failed handshakes
	secured.StartTLS()
	t.Cleanup(secured.Close)
	never := answersRaw(t, func(net.Conn) { <-open })
	elsewhere := answersRaw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 302 Found\r\nLocation: https://example.com/login\r\nContent-Length: 0\r\n\r\n")
	})
	endless := answersRaw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		<-open
	})
	problem := answersRaw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 401 No\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 32\r\n\r\n"+`{"error":{"message":"bad hmac"}}`)
	})
	says := func(answer string) string {
		return "http://" + answersRaw(t, func(conn net.Conn) { _, _ = io.WriteString(conn, answer) })
	}
	headers := answersRaw(t, func(conn net.Conn) {
		line := []byte("X: " + strings.Repeat("x", 1000) + "\r\n")
		for _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n"); err == nil; _, err = conn.Write(line) {
		}
	})
	talks := answersRaw(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "SSH-2.0-Server\r\n") })
	closes := answersRaw(t, func(net.Conn) {})
	reset := answersRaw(t, func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) })
	for _, tt := range []struct{ url, saw, fix string }{
		{"http://" + elsewhere, "302 to https://example.com/login", "take the URL that it redirects to"},
		{"http://" + status(404), "404", "check the path of the URL"},
		{"http://" + problem, "401: bad hmac", "check that the receiver has this secret"},
		{"http://" + status(401), "401", "check that the receiver has this secret, and verify the raw body"},
		{"http://" + status(405), "405", "check the path of the URL, and that it takes POST"},
		{"http://" + status(403), "403", "check that the receiver has this secret, and exempt the path from logins"},
		{"http://" + status(422), "422", "check that the URL is the receiver's; if the application needs other fields"},
		{"http://" + status(429), "429", "exempt the path from the limit on requests"},
		{"http://" + status(500), "500", "look into its log; if the application needs other fields"},
		{"http://" + secured.Listener.Addr().String(), "400: Client sent an HTTP request to an HTTPS server.", "write https:// in the URL"},
		{"http://" + headers, "no answer: the header of the answer is larger than 64 KiB", "check that the port of the URL is the receiver's"},
		{"http://" + closes, "connection closed", "check that the port speaks HTTP, or write https://"},
		{"http://" + reset, "connection closed", "check that the port speaks HTTP, or write https://"},
		{"http://" + talks, `no answer: malformed HTTP response "SSH-2.0-Server"`, "check that the port of the URL is the receiver's"},
		{"http://" + never, "no answer in time", "answer as soon as the event is stored"},
		{"http://" + endless, "200, but its body does not end", "end the answer; it needs no body"},
		{says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"), "200, but its body is cut off", "look for the cause in the receiver and in its proxy"},
		{says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "200, but its body is broken: invalid byte in chunk length", "look for the cause"},
		{says("HTTP/1.1 304 Not Modified\r\n\r\n"), "304", "answer 2xx once the event is stored"},
		{says("HTTP/1.1 502 Bad\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\n<html>"), "502", "look into its log"},
		{says("HTTP/1.1 404 No\r\nContent-Length: 18\r\n\r\n404 page not found"), "404: page not found", "check the path of the URL"},
		{"http://127.0.0.1:1", "127.0.0.1:1: connection refused", "start the receiver"},
		{"https://" + never, "no TLS handshake in time", "check that the port speaks TLS 1.2 or newer, or write http://"},
		{"https://" + closes, "connection closed during the TLS handshake", "check that the port speaks TLS"},
		{"https://" + status(400), "the port speaks no TLS", "check that the port speaks TLS"},
		{secured.URL, "certificate refused: certificate signed by unknown authority", "serve a valid certificate of a public authority"},
	} {
		t.Run(tt.saw, func(t *testing.T) {
			t.Parallel()
			args := []string{"probe", tt.url, "--provider", "stripe", "--secret", "whsec_test_secret"}
			want := "\nError: a valid event was not accepted: " + tt.saw + "\nTry: " + tt.fix
			var stdout, stderr string
			if strings.Contains(tt.saw, "in time") || strings.Contains(tt.saw, "does not end") {
				// The endpoint never ends its answer. A busy machine may not get so far in a short time.
				for timeout := 100 * time.Millisecond; timeout < time.Minute && !strings.Contains("\n"+stderr, want); timeout *= 4 {
					stdout, stderr = runHere(t, 1, append(args, "--timeout", timeout.String())...)
				}
			} else {
				stdout, stderr = runHere(t, 1, args...)
			}
			if !strings.Contains("\n"+stderr, want) {
				t.Errorf("stderr is %s\nwant %s", stderr, want)
			}
			flat := strings.Join(strings.Fields(stdout), " ")
			if want := "✗ valid event " + tt.saw + " "; !strings.HasPrefix(flat, want) {
				t.Errorf("the report is\n%s\nwant %s", stdout, want)
			}
			if !strings.Contains(flat, "other checks not run: ") || !strings.HasSuffix(flat, "0 passed · 1 failed · 15 unknown") {
				t.Errorf("the report is\n%s", stdout)
			}
			for line := range strings.Lines(stdout) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
}

// An endpoint that refuses valid events gets no more than the forged ones, which it may accept. A large
// answer is not read to its end.
func TestProbeSpares(t *testing.T) {
	t.Parallel()
	refusing, requests := probeAnswers(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	stripe := []string{"--provider", "stripe", "--secret", "whsec_test_secret"}
	runHere(t, 1, append([]string{"probe", refusing}, stripe...)...)
	if n := requests.Load(); n != 6 {
		t.Errorf("%d requests, want 6: one valid, five forged", n)
	}
	large, _ := probeAnswers(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 10<<20)) })
	stdout, _ := runHere(t, 0, append([]string{"probe", large, "--checks", "valid,slow-body"}, stripe...)...)
	if !strings.Contains(stdout, "2 passed") {
		t.Errorf("of an endpoint with large answers: %s", stdout)
	}
}

// An endpoint that refuses everything by now has not shown that it can tell a forged event from a valid one.
func TestProbeOfAFickleEndpoint(t *testing.T) {
	t.Parallel()
	stripe := []string{"--provider", "stripe", "--secret", "whsec_test_secret", "--json", "--checks", "valid,tampered,no-signature,old,duplicate"}
	var requests atomic.Int64
	fickle, _ := probeAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := requests.Add(1); {
		case r.Header.Get("Stripe-Signature") == "":
			w.WriteHeader(http.StatusBadRequest)
		case n > 1:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	stdout, _ := runHere(t, 1, append([]string{"probe", fickle}, stripe...)...)
	r := readProbe(t, stdout)
	for verdict, want := range map[string][]string{"pass": {"valid", "no-signature"}, "unknown": {"tampered", "old"}, "fail": {"duplicate"}} {
		if diff := cmp.Diff(want, r.named(verdict)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", verdict, diff)
		}
	}
	for _, c := range r.Checks {
		want := map[string]string{
			"tampered":  "401; then a valid event got 401, too",
			"duplicate": "A valid event was not accepted, although an earlier one was.",
		}[c.Name]
		if want != "" && c.Saw != want && c.Why != want {
			t.Errorf("%s: saw %q, why %q; want %q", c.Name, c.Saw, c.Why, want)
		}
	}
}

// An endpoint that fails beside slow clients, or under load, is not blamed for its speed.
func TestProbeBlamesTheAnswers(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	failing, _ := probeAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && requests.Add(1) > 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	stdout, _ := runHere(t, 1, "probe", failing, "--provider", "none", "--json", "--checks", "slow-body,answer-time")
	for i, want := range []string{"Valid events were answered in time, but not accepted", "Not every valid event was accepted under load"} {
		if c := readProbe(t, stdout).Checks[i]; c.Verdict != "fail" || !strings.HasPrefix(c.Why, want) {
			t.Errorf("%s: %s, %q; want fail, %q", c.Name, c.Verdict, c.Why, want)
		}
	}
}
