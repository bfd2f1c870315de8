package sample

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// maxAnswer bounds the part of an answer that Send returns, in bytes.
const maxAnswer = 64 << 10

// NewClient returns a client that contacts the target only: it follows no redirect, and ignores proxies that
// the environment names. It keeps so many connections, and trusts roots, or those of the system if roots is
// nil. A timeout of 0 is none.
func NewClient(timeout time.Duration, connections int, roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               nil,
			ForceAttemptHTTP2:   true,
			DisableCompression:  true,
			MaxIdleConnsPerHost: connections,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		},
	}
}

// HTTPRequest returns a signed request to target, whose query is that of signed. agent names the client if
// signed does not.
func HTTPRequest(ctx context.Context, signed *verify.Request, target *url.URL, agent string) (*http.Request, error) {
	to := *target
	to.RawQuery, to.Fragment = signed.RawQuery, ""
	req, err := http.NewRequestWithContext(ctx, signed.Method, to.String(), bytes.NewReader(signed.Body))
	if err != nil {
		return nil, err
	}
	req.Header = signed.Header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", agent)
	}
	return req, nil
}

// Answer is a receiver's answer to one request.
type Answer struct {
	Status int // 0 if there was no answer
	Body   []byte
	Took   time.Duration
}

// Send sends one request and returns the answer, with the first 64 KiB of its body. It reads on, so that the
// connection can be used again. The error names no URL: that may hold a credential.
func Send(client *http.Client, req *http.Request) (Answer, error) {
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		if outer, is := errors.AsType[*url.Error](err); is {
			err = outer.Err
		}
		return Answer{Took: time.Since(began)}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	took := time.Since(began)
	if err != nil {
		return Answer{Took: took}, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return Answer{resp.StatusCode, body, took}, nil
}

// Repeat has workers call one again and again, until it returns false, it fails or ctx ends. It returns the
// first error, or the cause of the end of ctx.
func Repeat(ctx context.Context, workers int, one func(context.Context) (more bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for more := true; more && ctx.Err() == nil; {
				var err error
				if more, err = one(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
