package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/verify"
)

// maxAnswer bounds the shown part of an answer, in characters.
const maxAnswer = 200

// sent is the outcome of one request.
type sent struct {
	event  int    // index of the event, from 0
	status int    // 0 if there was no answer
	answer string // the beginning of the body
	err    error
	took   time.Duration
}

// sendAll sends everything. It returns the outcomes of the requests that were started, and an error
// only if a request could not be made.
func (p *program) sendAll(ctx context.Context, s *sending) ([]sent, error) {
	order := s.order()
	results := make([]sent, len(order))
	roots, err := s.flags.api.ca.roots()
	if err != nil {
		return nil, err
	}
	client := newSendClient(s.flags.timeout, s.flags.concurrency, roots)
	defer client.CloseIdleConnections()
	progress := p.newProgress()
	defer progress.end()
	var next, done atomic.Int64
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range min(s.flags.concurrency, len(order)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(order) {
					return
				}
				req, err := s.request(order[n])
				if err != nil {
					once.Do(func() { failed = err })
					cancel()
					return
				}
				results[n] = s.deliver(ctx, client, req)
				results[n].event = order[n]
				done.Add(1)
			}
		})
	}
	finished := make(chan struct{})
	go func() { workers.Wait(); close(finished) }()
	progress.watch(finished, func() { progress.show("sent %d of %d", done.Load(), len(order)) })
	begun := min(int(next.Load()), len(order))
	return slices.DeleteFunc(results[:begun], func(r sent) bool { return r.status == 0 && r.err == nil }), failed
}

// newSendClient returns a client that contacts the target only. It trusts roots, or those of the
// system if roots is nil.
func newSendClient(timeout time.Duration, connections int, roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               nil, // ignores proxies that the environment names
			ForceAttemptHTTP2:   true,
			DisableCompression:  true,
			MaxIdleConnsPerHost: connections,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		},
	}
}

// deliver sends one request.
func (s *sending) deliver(ctx context.Context, client *http.Client, signed *verify.Request) sent {
	req, err := s.httpRequest(ctx, signed)
	if err != nil {
		return sent{err: err}
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return sent{err: unwrapURL(err), took: time.Since(began)}
	}
	defer resp.Body.Close()
	answer, err := readAnswer(resp.Body)
	took := time.Since(began)
	if err != nil {
		return sent{err: err, took: took}
	}
	return sent{status: resp.StatusCode, answer: answer, took: took}
}

// readAnswer returns the beginning of an answer. It reads on, so that the connection can be used again.
func readAnswer(body io.Reader) (string, error) {
	answer, err := io.ReadAll(io.LimitReader(body, utf8.UTFMax*(maxAnswer+1)))
	if err != nil {
		return "", err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(body, 1<<20))
	return say.Short(strings.TrimSpace(strings.ToValidUTF8(string(answer), "\ufffd")), maxAnswer), nil
}

func (s *sending) httpRequest(ctx context.Context, signed *verify.Request) (*http.Request, error) {
	target := *s.target
	target.RawQuery, target.Fragment = signed.RawQuery, ""
	req, err := http.NewRequestWithContext(ctx, signed.Method, target.String(), bytes.NewReader(signed.Body))
	if err != nil {
		return nil, err
	}
	req.Header = signed.Header
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "hookonce-send")
	}
	return req, nil
}

// untrusted reports whether err is that of a certificate that this machine does not trust.
func untrusted(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
}

// unwrapURL removes the URL from an error: it may hold a credential.
func unwrapURL(err error) error {
	var wrapped interface{ Unwrap() error }
	if errors.As(err, &wrapped) && wrapped.Unwrap() != nil {
		return wrapped.Unwrap()
	}
	return err
}

// expected returns the first digit of the expected status.
func (s *sending) expected() int {
	if s.flags.corrupt || s.flags.skew.Abs() > s.sender.Tolerance() {
		return 4
	}
	return 2
}
