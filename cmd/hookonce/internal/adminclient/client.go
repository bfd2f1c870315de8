// Package adminclient asks a gateway's admin API: over HTTP, or in this process.
package adminclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	// readTimeout bounds a request that changes nothing or one thing: the API gives a query 10 s.
	readTimeout = 30 * time.Second
	// probeTimeout bounds Alive: a gateway on this machine answers at once, or it hangs.
	probeTimeout = 2 * time.Second
	// maxAnswer bounds an answer, in bytes. The largest is a page of 20 quarantined requests with their
	// bodies.
	maxAnswer = 256 << 20
)

// Client asks one gateway. It is safe for concurrent use.
type Client struct {
	base  *url.URL // without a slash at its end
	token string
	http  *http.Client
	here  bool // the API is in this process
	// Work works on a running job in this process, until the job or the context ends; nil if a gateway does.
	Work func(ctx context.Context, job string)
}

// New returns a client of the admin API at address, an http or https URL, with a token or "". The
// client sends the token only there: it follows no redirects. It verifies the certificate of an https
// URL by roots, or by those of the system if roots is nil.
func New(address, token string, roots *x509.CertPool) (*Client, error) {
	base, err := parseBase(address)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
	}
	if base.Scheme == "https" {
		// A proxy of a plain http URL would see the token.
		transport.Proxy = http.ProxyFromEnvironment
	}
	return &Client{base: base, token: token, http: newHTTPClient(transport)}, nil
}

// InProcess returns a client of an admin API that runs in this process.
func InProcess(api http.Handler) *Client {
	base := &url.URL{Scheme: "http", Host: "localhost"}
	return &Client{base: base, http: newHTTPClient(&inProcess{api}), here: true}
}

func newHTTPClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// parseBase reads the address of an admin API. The error does not quote it: it may hold a password.
func parseBase(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("it is not a URL such as http://127.0.0.1:8081 or https://hooks.example.com")
	case u.User != nil:
		return nil, errors.New("it holds a user or a password: the token goes into HOOKONCE_ADMIN_TOKEN")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("it holds a query or a fragment: leave them out")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// String returns the address of the gateway, or "" for an API in this process.
func (c *Client) String() string {
	if c.here {
		return ""
	}
	return c.base.String()
}

// Alive reports whether a gateway of hookonce answers, within two seconds. It sends no token.
func (c *Client) Alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var health struct{ Status string }
	bare := *c
	bare.token = ""
	return bare.Get(ctx, "/healthz", nil, &health) == nil && health.Status == "ok"
}

// Path joins the segments of a path, and escapes each.
func Path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// Get decodes the JSON answer of GET path?query into the value that into points to. A refusal is a
// *Problem.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	r, err := c.newRequest(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	return c.do(r, readTimeout, into)
}

// Post decodes the JSON answer of POST path with the JSON of body, which may be nil. key is the
// Idempotency-Key, or "". A refusal is a *Problem.
func (c *Client) Post(ctx context.Context, path, key string, body, into any) error {
	if body == nil {
		body = struct{}{}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := c.newRequest(ctx, http.MethodPost, path, nil, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return c.do(r, readTimeout, into)
}

// Stream opens a stream of server-sent events at path?query, which ends with ctx. lastEventID is the
// cursor to resume at, or "". The caller closes the stream. A refusal is a *Problem.
func (c *Client) Stream(ctx context.Context, path string, query url.Values, lastEventID string) (io.ReadCloser, error) {
	r, err := c.newRequest(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if answer.StatusCode == http.StatusOK && mediaType(answer) == "text/event-stream" {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	return nil, c.decode(answer, new(json.RawMessage))
}

func (c *Client) newRequest(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	text := c.base.String() + path
	if len(query) > 0 {
		text += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, text, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, application/problem+json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// do sends r and decodes the answer, all within limit.
func (c *Client) do(r *http.Request, limit time.Duration, into any) error {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	answer, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		return c.unreachable(err)
	}
	defer answer.Body.Close()
	return c.decode(answer, into)
}

// decode reads an answer: JSON of a 2xx into into, everything else as an error.
func (c *Client) decode(answer *http.Response, into any) error {
	kind := mediaType(answer)
	if kind != "application/json" && kind != "application/problem+json" {
		content := "without a type of content"
		if kind != "" {
			content = "with content of type " + strconv.Quote(kind)
		}
		return &StrangerError{c.String(), fmt.Sprintf("it answered %d %s", answer.StatusCode, content)}
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.unreachable(err)
	case len(raw) > maxAnswer:
		return &StrangerError{c.String(), fmt.Sprintf("its answer is longer than %d MiB", maxAnswer>>20)}
	case answer.StatusCode/100 != 2:
		return c.problem(answer, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &StrangerError{c.String(), "its answer cannot be read: " + err.Error()}
	}
	return nil
}

func mediaType(answer *http.Response) string {
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}
