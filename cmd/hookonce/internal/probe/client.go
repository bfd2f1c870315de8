package probe

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/verify"
)

const (
	// maxRequests is the largest number of requests of one probe.
	maxRequests = 200
	// maxAnswer is the number of bytes that are read of an answer's body.
	maxAnswer = 64 << 10
	// maxHeader bounds the header of an answer, with those of interim answers, in bytes.
	maxHeader = 64 << 10
)

// closed is the text of a connection that the receiver closed without an answer.
const closed = "connection closed"

var errBudget = fmt.Errorf("the %d requests of a probe are used up", maxRequests)

// client sends requests to one URL, each over a connection of its own, so that a check can hold a
// request back or cut it off. It follows no redirect and uses no proxy. It is safe for concurrent use.
type client struct {
	target  *url.URL
	roots   *x509.CertPool // nil: those of the system
	timeout time.Duration  // for a connection, and for an answer
	sent    atomic.Int64   // requests
}

// answer is the outcome of one request.
type answer struct {
	status   int    // 0 if there was no whole answer
	location string // of a redirect
	text     string // the message in the body, if it is text without markup
	tls      bool   // a server with TLS refuses plain HTTP
	err      error
	took     time.Duration // from the last byte of the request to the last byte of the answer
}

func (a answer) accepted() bool { return a.status/100 == 2 }

// again reports whether a sender delivers again after the answer because the receiver asks for it:
// trouble of its own, or a copy that is being worked on.
func (a answer) again() bool {
	switch a.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return a.status == 0 || a.status/100 == 5
}

func (a answer) String() string {
	switch {
	case a.status != 0:
		return fmt.Sprint(a.status)
	case a.err != nil:
		return silence(a.err)
	}
	return "no answer"
}

// full says more of an answer than its status.
func (a answer) full() string {
	switch {
	case a.location != "":
		return fmt.Sprintf("%s to %s", a, say.Short(a.location, maxSaid))
	case a.text != "":
		return fmt.Sprintf("%s: %s", a, say.Short(a.text, maxSaid))
	}
	return a.String()
}

// send delivers one request.
func (c *client) send(ctx context.Context, req *verify.Request) answer {
	x, err := c.open(ctx, req)
	if err != nil {
		return answer{err: err}
	}
	defer x.close()
	return x.finish()
}

// exchange is one request on its connection.
type exchange struct {
	conn    net.Conn
	raw     []byte // the bytes that are not written yet
	timeout time.Duration
	stop    func() bool
}

// open connects, and writes nothing. When ctx ends, every operation of the exchange fails.
func (c *client) open(ctx context.Context, req *verify.Request) (*exchange, error) {
	raw, err := c.encode(req)
	if err != nil {
		return nil, err
	}
	if c.sent.Add(1) > maxRequests {
		return nil, errBudget
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return &exchange{conn: conn, raw: raw, timeout: c.timeout, stop: stop}, nil
}

func (c *client) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	port := c.target.Port()
	if port == "" {
		port = c.target.Scheme // net knows the names http and https
	}
	address := net.JoinHostPort(c.target.Hostname(), port)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil || c.target.Scheme != "https" {
		return conn, err
	}
	secured := tls.Client(conn, &tls.Config{
		ServerName: c.target.Hostname(), RootCAs: c.roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	})
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &handshakeError{err}
	}
	return secured, nil
}

// encode returns the bytes of a request.
func (c *client) encode(signed *verify.Request) ([]byte, error) {
	req, err := sample.HTTPRequest(context.Background(), signed, c.target, "hookonce-probe")
	if err != nil {
		return nil, err
	}
	req.Close = true
	if user := c.target.User; user != nil && req.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	var raw bytes.Buffer
	err = req.Write(&raw)
	return raw.Bytes(), err
}

// write writes all of the request but its last keep bytes.
func (x *exchange) write(keep int) error {
	n := max(len(x.raw)-keep, 0)
	if err := x.conn.SetWriteDeadline(time.Now().Add(x.timeout)); err != nil {
		return err
	}
	n, err := x.conn.Write(x.raw[:n])
	x.raw = x.raw[n:]
	return err
}

// finish writes the rest of the request and reads the answer. A receiver may answer before it has
// read the request, so both are done at once.
func (x *exchange) finish() answer {
	type read struct {
		answer
		at time.Time
	}
	done := make(chan read, 1)
	if err := x.conn.SetDeadline(time.Now().Add(x.timeout)); err != nil {
		return answer{err: err}
	}
	go func() {
		a := readAnswer(x.conn)
		done <- read{a, time.Now()}
	}()
	errWrite := x.write(0)
	began := time.Now()
	r := <-done
	if r.status == 0 && errWrite != nil && !isReset(r.err) && !errors.Is(r.err, io.EOF) {
		return answer{err: errWrite}
	}
	r.took = max(r.at.Sub(began), 0)
	return r.answer
}

var errHeader = fmt.Errorf("the header of the answer is larger than %d KiB", maxHeader>>10)

// readAnswer reads one answer. Interim answers (1xx) are skipped.
func readAnswer(conn net.Conn) answer {
	limited := &io.LimitedReader{R: conn, N: maxHeader} // http.ReadResponse knows no limit
	in := bufio.NewReader(limited)
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil && limited.N <= 0 {
			return answer{err: errHeader}
		}
		if err != nil {
			return answer{err: err}
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		limited.N = math.MaxInt64
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		_ = resp.Body.Close()
		if err != nil && !isReset(err) {
			return answer{err: &bodyError{resp.StatusCode, err}}
		}
		a := answer{status: resp.StatusCode}
		if a.status/100 == 3 {
			a.location = resp.Header.Get("Location")
		}
		kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
		if slices.Contains([]string{"", "text/plain", "application/json", "application/problem+json"}, kind) && utf8.Valid(body) {
			a.text = strings.TrimPrefix(messageOf(body), strconv.Itoa(a.status)+" ") // Go: "404 page not found"
		}
		// Go: "Client sent an HTTP request to an HTTPS server." nginx: "The plain HTTP request was sent to
		// HTTPS port"
		a.tls = resp.StatusCode == http.StatusBadRequest && bytes.Contains(body, []byte("HTTP request")) && bytes.Contains(body, []byte("HTTPS"))
		return a
	}
}

// messageOf returns the message for people in the body of an answer: a usual member of a JSON object, or
// the first line.
func messageOf(body []byte) string {
	var doc map[string]any
	if json.Unmarshal(body, &doc) == nil {
		if inner, ok := doc["error"].(map[string]any); ok {
			doc = inner
		}
		for _, name := range []string{"detail", "message", "error", "title"} {
			if text, ok := doc[name].(string); ok && text != "" {
				return text
			}
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	if strings.HasPrefix(line, "<") {
		return "" // markup of another declared type
	}
	return line
}

// close closes the connection, as a sender does whose time is up.
func (x *exchange) close() {
	x.stop()
	_ = x.conn.Close()
}

// reachable waits until the target accepts connections, at most for the given time.
func (c *client) reachable(ctx context.Context, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for {
		conn, err := c.dial(ctx)
		if err == nil {
			return conn.Close()
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func isReset(err error) bool {
	var call *os.SyscallError
	return errors.As(err, &call) && (call.Syscall == "read" || call.Syscall == "write" || call.Syscall == "wsarecv" || call.Syscall == "wsasend")
}
