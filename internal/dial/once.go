package dial

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// ErrRepeat is matched by an error of Once where net/http would have dialled or sent once more.
var ErrRepeat = errors.New("the server refused the request or ended the connection before its answer, over HTTP/2")

// Once sends req by a transport of this package, or one that dials by Bounded, with at most one dial and one request. By
// itself net/http repeats a request without an end while an HTTP/2 server answers GOAWAY or REFUSED_STREAM, or allows no
// streams. The caller ends the context of req when it has read the answer.
func Once(t *http.Transport, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	o := &once{cancel: cancel}
	ctx = httptrace.WithClientTrace(context.WithValue(ctx, onceKey{}, o), &httptrace.ClientTrace{GotConn: o.gotConn})
	resp, err := t.RoundTrip(req.WithContext(ctx))
	if err != nil && o.repeats.Load() {
		err = ErrRepeat
	}
	return resp, err
}

// Twice is Once, and sends req once more if net/http would have repeated the request: a server that restarts says so to
// the request that it will not read, and other requests may take all the streams of a connection.
func Twice(t *http.Transport, req *http.Request) (*http.Response, error) {
	resp, err := Once(t, req)
	if !errors.Is(err, ErrRepeat) || req.Context().Err() != nil {
		return resp, err
	}
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	alone := t.Clone() // it shares no connection
	alone.DisableKeepAlives = true
	return Once(alone, again)
}

// once is one call of Once.
type once struct {
	cancel                  context.CancelCauseFunc
	dialled, begun, repeats atomic.Bool
}

type onceKey struct{}

// gotConn is called before each request is written.
func (o *once) gotConn(httptrace.GotConnInfo) {
	if !o.begun.CompareAndSwap(false, true) {
		o.end()
	}
}

// end keeps net/http from another try.
func (o *once) end() {
	o.repeats.Store(true)
	o.cancel(ErrRepeat)
}

// Bounded is dial, but refuses to dial for a call of Once that has dialled or sent.
func Bounded(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		o, ok := ctx.Value(onceKey{}).(*once)
		if ok && (o.begun.Load() || !o.dialled.CompareAndSwap(false, true)) {
			o.end()
			return nil, ErrRepeat
		}
		return dial(ctx, network, address)
	}
}
