package send

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// request is one attempt's request. Its first fields are those of all requests to a target.
type request struct {
	url    *url.URL
	secret string
	signer *signer // nil without a secret
	head   string  // the first lines over HTTP/1

	header   http.Header
	body     []byte
	timeout  time.Duration
	deadline time.Time // the attempt's end
	begun    bool      // a connection was dialled for it, or it was sent
}

// way identifies the requests that share a target.
type way struct{ url, secret string }

// maxWays bounds the ways that a Sender remembers. Reloads change URLs and secrets.
const maxWays = 1000

// request returns the request with msg, without its times. An error matches ErrRequest.
func (s *Sender) request(target *Target, msg *Message) (*request, error) {
	if err := checkID(msg.ID); err != nil {
		return nil, err
	}
	common, err := s.way(way{target.URL, target.Secret})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	r := *common
	r.header, r.body = header(msg), msg.Body
	if err := s.sign(r.header, r.signer, msg); err != nil {
		return nil, err
	}
	return &r, nil
}

// way returns the common parts of the requests of a way.
func (s *Sender) way(w way) (*request, error) {
	s.mu.Lock()
	r := s.ways[w]
	s.mu.Unlock()
	if r != nil {
		return r, nil
	}
	u, err := parseURL(w.url)
	if err != nil {
		return nil, err
	}
	signer, err := newSigner(w.secret)
	if err != nil {
		return nil, err
	}
	r = &request{url: u, secret: w.secret, signer: signer, head: "POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\n"}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ways) >= maxWays {
		clear(s.ways)
	}
	s.ways[w] = r
	return r, nil
}

// Header returns the header of a request with msg, signed with secret. An error matches ErrRequest.
func (s *Sender) Header(secret string, msg *Message) (http.Header, error) {
	if err := checkID(msg.ID); err != nil {
		return nil, err
	}
	signer, err := newSigner(secret)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	h := header(msg)
	return h, s.sign(h, signer, msg)
}

// ofTransport returns r for package net/http.
func (r *request) ofTransport(ctx context.Context) *http.Request {
	body := func() (io.ReadCloser, error) {
		if len(r.body) == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(r.body)), nil
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: r.url, Host: r.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, ContentLength: int64(len(r.body)), GetBody: body,
	}).WithContext(ctx)
	req.Body, _ = body()
	return req
}

// write adds r to buf as HTTP/1 sends it. Names and values are valid, see header.
func (r *request) write(buf *bytes.Buffer) {
	buf.WriteString(r.head)
	for name, values := range r.header {
		for _, v := range values {
			buf.WriteString(name)
			buf.WriteString(": ")
			buf.WriteString(v)
			buf.WriteString("\r\n")
		}
	}
	buf.WriteString("Content-Length: ")
	buf.Write(strconv.AppendInt(buf.AvailableBuffer(), int64(len(r.body)), 10))
	buf.WriteString("\r\n\r\n")
	buf.Write(r.body)
}

// describe returns err as the error of r. ctx is that of the attempt.
func (r *request) describe(ctx context.Context, err error) error {
	late := !time.Now().Before(r.deadline) || errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil
	switch {
	case late, errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("no full answer in time (at most %s): %w", r.timeout, context.DeadlineExceeded)
	case ctx.Err() != nil:
		err = fmt.Errorf("cancelled before the answer: %w", ctx.Err())
	}
	return &Error{Host: r.url.Host, Err: err}
}
