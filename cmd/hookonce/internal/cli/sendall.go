package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/internal/sample"
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
	client := sample.NewClient(s.flags.timeout, s.flags.concurrency, roots)
	defer client.CloseIdleConnections()
	progress := p.newProgress()
	defer progress.end()
	var next, done atomic.Int64
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		err = sample.Repeat(ctx, min(s.flags.concurrency, len(order)), func(ctx context.Context) (bool, error) {
			n := int(next.Add(1)) - 1
			if n >= len(order) {
				return false, nil
			}
			req, err := s.request(order[n])
			if err != nil {
				return false, err
			}
			results[n] = s.deliver(ctx, client, req)
			results[n].event = order[n]
			done.Add(1)
			return true, nil
		})
	}()
	progress.watch(finished, func() { progress.show("sent %d of %d", done.Load(), len(order)) })
	if ctx.Err() != nil {
		err = nil // the report shows the answers so far
	}
	begun := min(int(next.Load()), len(order))
	return slices.DeleteFunc(results[:begun], func(r sent) bool { return r.status == 0 && r.err == nil }), err
}

// deliver sends one request.
func (s *sending) deliver(ctx context.Context, client *http.Client, signed *verify.Request) sent {
	req, err := s.httpRequest(ctx, signed)
	if err != nil {
		return sent{err: err}
	}
	answer, err := sample.Send(client, req)
	return sent{status: answer.Status, answer: answerText(answer.Body), err: err, took: answer.Took}
}

func (s *sending) httpRequest(ctx context.Context, signed *verify.Request) (*http.Request, error) {
	return sample.HTTPRequest(ctx, signed, s.target, "hookonce-send")
}

// answerText returns the beginning of an answer for people.
func answerText(body []byte) string {
	return say.Short(strings.TrimSpace(strings.ToValidUTF8(string(body), "\ufffd")), maxAnswer)
}

// untrusted reports whether err is that of a certificate that this machine does not trust.
func untrusted(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
}

// expected returns the first digit of the expected status.
func (s *sending) expected() int {
	if s.flags.corrupt || s.flags.skew.Abs() > s.sender.Tolerance() {
		return 4
	}
	return 2
}
