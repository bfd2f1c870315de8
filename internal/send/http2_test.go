package send

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/internal/dial"
)

// Types of the frames of HTTP/2 (RFC 9113, 6).
const (
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7
)

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	head := []byte{0, 0, byte(len(payload)), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	return append(head, payload...)
}

// http2Server starts a server that speaks HTTP/2 by hand, and counts connections and requests. answer returns the frames
// that answer a request; settings are those of each connection.
func http2Server(t *testing.T, settings []byte, answer func(request int64, stream uint32) []byte) (s *httptest.Server, conns, requests *atomic.Int64) {
	t.Helper()
	conns, requests = new(atomic.Int64), new(atomic.Int64)
	s = httptest.NewUnstartedServer(nil)
	s.TLS = &tls.Config{NextProtos: []string{"h2"}}
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		conns.Add(1)
		defer context.AfterFunc(t.Context(), func() { _ = c.Close() })() // s.Close waits for it
		preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		_, _ = c.Write(frame(frameSettings, 0, 0, settings...))
		for {
			var head [9]byte
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:4])>>8)); err != nil {
				return
			}
			if head[3] == frameHeaders {
				_, _ = c.Write(answer(requests.Add(1), binary.BigEndian.Uint32(head[5:])))
			}
		}
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, conns, requests
}

// An attempt dials and sends at most twice. No answer of an HTTP/2 server changes that.
func TestHTTP2RepeatsOnce(t *testing.T) {
	t.Parallel()
	goAway := func(int64, uint32) []byte { return frame(frameGoAway, 0, 0, make([]byte, 8)...) }
	refuse := func(_ int64, stream uint32) []byte { return frame(frameReset, 0, stream, 0, 0, 0, 7) }
	accept := func(stream uint32) []byte { return frame(frameHeaders, 5, stream, 0x88) } // END_STREAM, END_HEADERS, :status 200
	second := func(first func(int64, uint32) []byte) func(int64, uint32) []byte {
		return func(request int64, stream uint32) []byte {
			if request == 1 {
				return first(request, stream)
			}
			return accept(stream)
		}
	}
	for name, tt := range map[string]struct {
		settings        []byte
		answer          func(int64, uint32) []byte
		want            error
		conns, requests int64
	}{
		"GOAWAY":       {nil, goAway, dial.ErrRepeat, 2, 2},
		"refused":      {nil, refuse, dial.ErrRepeat, 2, 2},
		"no streams":   {[]byte{0, 3, 0, 0, 0, 0}, refuse, dial.ErrRepeat, 2, 2}, // SETTINGS_MAX_CONCURRENT_STREAMS
		"GOAWAY once":  {nil, second(goAway), nil, 2, 2},
		"refused once": {nil, second(refuse), nil, 2, 2},
		"accepted":     {nil, func(_ int64, stream uint32) []byte { return accept(stream) }, nil, 1, 1},
	} {
		for body, text := range map[string]string{"a body": "{}", "no body": ""} {
			t.Run(name+", "+body, func(t *testing.T) {
				t.Parallel()
				server, conns, requests := http2Server(t, tt.settings, tt.answer)
				msg := message()
				msg.Body = []byte(text)
				res := senderFor(t, server).Send(t.Context(), to(server.URL), msg)
				if !errors.Is(res.Err, tt.want) || conns.Load() > tt.conns || requests.Load() > tt.requests {
					t.Errorf("error %v, %d connections and %d requests; want %v, and at most %d and %d",
						res.Err, conns.Load(), requests.Load(), tt.want, tt.conns, tt.requests)
				}
			})
		}
	}
}

// A server that allows few streams on a connection gets more connections, and no attempt fails for it.
func TestHTTP2WithFewStreams(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1}
	startHTTP2(server)
	t.Cleanup(server.Close)
	s := senderFor(t, server)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 4 {
				msg := message()
				msg.Body = bytes.Repeat([]byte("x"), 1000)
				if res := s.Send(t.Context(), to(server.URL), msg); res.Err != nil {
					t.Error(res.Err)
				}
			}
		})
	}
	all.Wait()
}
