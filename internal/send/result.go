package send

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/internal/shown"
)

const (
	maxDetail = 4 << 10
	maxError  = 1 << 10
)

// Error is a failure to reach a destination or to get its answer. The text of Err may quote the
// destination; Error cuts and escapes it.
type Error struct {
	Host string // as in the destination's URL, with a port only if the URL has one
	Err  error
}

// Error omits the host: room is short, and readers know the destination.
func (e *Error) Error() string { return shown.EscapeStart(e.Err.Error(), maxError) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failed(status int, err error) Result {
	return Result{StatusCode: status, Err: err, Detail: shown.EscapeStart(err.Error(), maxDetail)}
}

func (s *Sender) result(ctx context.Context, req *request, resp *http.Response) Result {
	success := 200 <= resp.StatusCode && resp.StatusCode <= 299
	body, err := readBody(resp, !success)
	switch {
	case err != nil:
		err = req.describe(ctx, err)
	case success:
		return Result{StatusCode: resp.StatusCode}
	default:
		err = &Error{Host: req.url.Host, Err: statusError(resp.StatusCode)}
	}
	res := failed(resp.StatusCode, err)
	res.RetryAfter = headers.RetryAfter(resp.Header.Get("Retry-After"), s.now())
	res.Permanent = resp.StatusCode == http.StatusGone
	if len(body) == 0 {
		return res
	}
	hide := secretsOf(req)
	text := hide.begin(body)
	res.Detail = shown.EscapeStart(strings.TrimSpace(text), maxDetail)
	res.Response = []byte(cut(text, MaxResponse))
	res.ResponseType = cut(plainText(hide.in(resp.Header.Get("Content-Type"))), maxResponseType)
	return res
}

func statusError(status int) error {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	return fmt.Errorf("%w %s", ErrStatus, text)
}

// readBody reads the body up to the limit, and returns it if it is wanted.
func readBody(resp *http.Response, wanted bool) ([]byte, error) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil // the body is the connection itself, which does not end
	}
	var body []byte
	var err error
	limited := io.LimitReader(resp.Body, maxResponseBody)
	if wanted {
		body, err = io.ReadAll(limited)
	} else {
		_, err = io.Copy(io.Discard, limited)
	}
	if err != nil {
		return nil, fmt.Errorf("status %d, then the answer broke off: %w", resp.StatusCode, err)
	}
	return body, nil
}

// plainText returns text as every database takes it.
func plainText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
