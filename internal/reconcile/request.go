package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/dial"
	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/provider"
)

// get gets a JSON document, if need be in several tries. With a body it posts it.
func (c *Client) get(ctx context.Context, u *url.URL, body []byte) (document json.RawMessage, header http.Header, err error) {
	for try := 1; ; try++ {
		wait := c.wait << (try - 1)
		var asked time.Duration
		document, header, asked, err = c.once(ctx, u, body)
		switch {
		case err == nil:
			return document, header, nil
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case !isPassing(err):
			return nil, nil, err
		case try == maxTries:
			return nil, nil, fmt.Errorf("%w (%d tries)", err, try)
		case asked > maxWait:
			return nil, nil, fmt.Errorf("%w: it asks to wait for %s: run this again then", err, asked)
		}
		if err := sleep(ctx, max(wait, asked)); err != nil {
			return nil, nil, err
		}
	}
}

// passingError is an error that another try may mend.
type passingError struct{ error }

// Unwrap returns the error inside.
func (e passingError) Unwrap() error { return e.error }

func isPassing(err error) bool {
	_, is := errors.AsType[passingError](err)
	return is
}

func again(format string, args ...any) error {
	return passingError{fmt.Errorf("%w: "+format, append([]any{ErrAPI}, args...)...)}
}

// once makes one try. asked is how long the API asks to wait.
func (c *Client) once(ctx context.Context, u *url.URL, body []byte) (document json.RawMessage, header http.Header, asked time.Duration, err error) {
	known := c.token != ""
	if c.o.List.Token != "" && !known {
		if asked, err := c.exchange(ctx); err != nil {
			return nil, nil, asked, err
		}
	}
	req, err := c.request(ctx, u, body)
	if err != nil {
		return nil, nil, 0, err
	}
	switch {
	case c.o.List.Token != "":
		req.Header.Set("Authorization", "Bearer "+c.token)
	case c.o.List.Auth == provider.AuthBasic:
		req.SetBasicAuth(c.o.Key, "")
	default:
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	document, header, asked, err = c.do(req)
	if errors.Is(err, ErrKey) && known {
		c.token = "" // it has expired
		err = again("the token has expired")
	}
	return document, header, asked, err
}

// exchange gets a token for the key.
func (c *Client) exchange(ctx context.Context) (asked time.Duration, err error) {
	address, err := c.address(c.o.List.Token, c.o.Params)
	if err != nil {
		return 0, err
	}
	req, err := c.request(ctx, address, []byte("grant_type=client_credentials"))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	id, secret, _ := strings.Cut(c.o.Key, ":")
	req.SetBasicAuth(id, secret)
	document, _, asked, err := c.do(req)
	if err != nil {
		return asked, err
	}
	if c.token = text(dig(document, "access_token")); c.token == "" || strings.ContainsAny(c.token, "\r\n\x00") {
		c.token = ""
		return 0, fmt.Errorf("%w: it gives no token for the key", ErrAPI)
	}
	return 0, nil
}

// request returns a request without credentials.
func (c *Client) request(ctx context.Context, u *url.URL, body []byte) (*http.Request, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: its address is malformed", ErrAPI)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "hookonce")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.o.List.Header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// do makes a request, after a pause since the last one, and returns its JSON document.
func (c *Client) do(req *http.Request) (document json.RawMessage, header http.Header, asked time.Duration, err error) {
	if err := sleep(req.Context(), time.Until(c.last.Add(c.pause))); err != nil {
		return nil, nil, 0, err
	}
	c.last = time.Now()
	host := req.URL.Host
	resp, err := c.client.Do(req)
	if err != nil {
		if refused := dial.ErrAddress; errors.Is(err, refused) {
			return nil, nil, 0, fmt.Errorf("%w: %s: %w", ErrAPI, host, refused)
		}
		return nil, nil, 0, again("%s does not answer", host) // the error itself may show the address
	}
	defer func() { _ = resp.Body.Close() }()
	asked, limited := limit(resp.Header, time.Now())
	status := resp.StatusCode
	switch {
	case status == http.StatusOK:
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && limited:
		return nil, nil, asked, again("%s limits the rate", host)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, nil, 0, fmt.Errorf("%w (%s, status %d)", ErrKey, host, status)
	case status >= 500:
		return nil, nil, asked, again("%s answers %d", host, status)
	case status == http.StatusNotFound || status == http.StatusGone:
		return nil, nil, 0, errGone
	default:
		return nil, nil, 0, fmt.Errorf("%w: %s answers %d", ErrAPI, host, status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	switch {
	case err != nil:
		return nil, nil, 0, again("the answer of %s is cut off", host)
	case len(body) > maxPage:
		return nil, nil, 0, fmt.Errorf("%w: the answer of %s is larger than %d bytes", ErrAPI, host, maxPage)
	case !json.Valid(body):
		return nil, nil, 0, again("the answer of %s is not JSON", host)
	}
	return body, resp.Header, 0, nil
}

// limit returns how long an answer asks to wait, and whether it says that the rate is too high. GitHub says so by
// X-RateLimit-Remaining: 0, and X-RateLimit-Reset is a Unix time
// (https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api).
func limit(h http.Header, now time.Time) (asked time.Duration, limited bool) {
	if after := h.Get("Retry-After"); after != "" {
		return headers.RetryAfter(after, now), true
	}
	if h.Get("X-RateLimit-Remaining") != "0" {
		return 0, false
	}
	reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil || reset > now.Unix()+int64(headers.MaxRetryAfter/time.Second) {
		return 0, true
	}
	return max(time.Unix(reset, 0).Sub(now), 0), true
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
