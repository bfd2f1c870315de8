package adminclient

import (
	"io"
	"net/http"
)

// inProcess is a transport that calls a handler in this process.
type inProcess struct{ api http.Handler }

// RoundTrip implements http.RoundTripper. It returns once the handler writes its answer or ends. It
// does not give up when the context of r ends: the handler does.
func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, writes := io.Pipe()
	w := &answerWriter{header: make(http.Header), body: writes, began: make(chan struct{})}
	inner := r.Clone(r.Context())
	inner.RequestURI = r.URL.RequestURI()
	inner.Host, inner.RemoteAddr = r.URL.Host, "127.0.0.1:0"
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	go func() {
		defer func() {
			if v := recover(); v != nil {
				w.WriteHeader(http.StatusInternalServerError)
				_ = writes.CloseWithError(io.ErrUnexpectedEOF) // the handler logs its panics itself
				return
			}
			w.WriteHeader(http.StatusOK)
			_ = writes.Close()
		}()
		t.api.ServeHTTP(w, inner)
	}()
	<-w.began
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// answerWriter passes an answer to a pipe.
type answerWriter struct {
	header, sent http.Header
	status       int
	body         *io.PipeWriter
	began        chan struct{} // closed once status and sent are set
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
		close(w.began)
	}
}

func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher: a pipe holds nothing back.
func (w *answerWriter) Flush() { w.WriteHeader(http.StatusOK) }
