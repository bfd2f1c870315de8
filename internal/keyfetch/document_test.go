package keyfetch_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/internal/dial"
	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/verify"
)

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var led atomic.Int64
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		led.Add(1)
		jwks("a")(w, r)
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		k := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/jwks.json" {
				led.Add(1)
			}
			http.Redirect(w, r, []string{elsewhere.URL, "/other.json"}[status%2], status)
		})
		k.want(t, set(t), "a", keyfetch.ErrUnavailable)
		k.wantAsked(t, 1)
	}
	if led.Load() != 0 {
		t.Errorf("%d redirects were followed", led.Load())
	}
}

func TestDocumentsHaveASize(t *testing.T) {
	t.Parallel()
	padded := func(size int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			jwks("a")(rec, r)
			_, _ = w.Write(append(rec.Body.Bytes(), strings.Repeat(" ", size-rec.Body.Len())...))
		}
	}
	k := newKeys(t, padded(32<<10))
	k.want(t, set(t), "a", nil)
	k = newKeys(t, padded(keyfetch.MaxSize))
	k.want(t, set(t), "a", nil)
	k = newKeys(t, padded(keyfetch.MaxSize+1))
	k.want(t, set(t), "a", keyfetch.ErrUnavailable)
}

func TestCutOffAnswer(t *testing.T) {
	t.Parallel()
	k := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000")
		jwks("a")(w, r)
	})
	k.want(t, set(t), "a", keyfetch.ErrUnavailable)
}

// Only the host that the scheme names is trusted. Only public addresses are dialled, whichever
// address the name resolves to.
func TestUntrustedServers(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(jwks("a"))
	t.Cleanup(server.Close)
	local := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	tests := []struct {
		name, url string
		opts      keyfetch.Options
		want      []error
	}{
		{"unknown authority", "https://example.com/", keyfetch.Options{Dial: to(server)}, []error{keyfetch.ErrUnavailable}},
		{"other name", "https://example.org/", keyfetch.Options{Dial: to(server), RootCAs: roots(server)}, []error{keyfetch.ErrUnavailable}},
		{"loopback", server.URL, keyfetch.Options{RootCAs: roots(server)}, []error{keyfetch.ErrUnavailable, dial.ErrAddress}},
		{"name of loopback", local, keyfetch.Options{RootCAs: roots(server)}, []error{keyfetch.ErrUnavailable, dial.ErrAddress}},
		{"metadata", "https://169.254.169.254/", keyfetch.Options{}, []error{keyfetch.ErrUnavailable, dial.ErrAddress}},
		{"not https", "http://example.com/", keyfetch.Options{Dial: to(server)}, []error{keyfetch.ErrUnknown}},
		{"user", "https://u@example.com/", keyfetch.Options{Dial: to(server)}, []error{keyfetch.ErrUnknown}},
		{"malformed", "https://exa mple.com/", keyfetch.Options{Dial: to(server)}, []error{keyfetch.ErrUnknown}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			keys, err := keyfetch.New(&tt.opts).Keys(t.Context(), set(t), &verify.KeyRef{Method: http.MethodGet, URL: tt.url, ID: "a"}, nil)
			if keys != nil {
				t.Error("got keys, want none")
			}
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
		})
	}
}

func TestErrorsShowNoCredentials(t *testing.T) {
	t.Parallel()
	v := scheme(t, verify.KeySource{
		URL: "https://example.com/get?secret={param:password}", Method: http.MethodPost, Body: `{param:password}`,
		Header: map[string]string{"Authorization": "Bearer {param:password}"}, Format: verify.KeysJWKS,
	})
	for name, respond := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.URL.String(), http.StatusForbidden) },
		"echo":    func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Header.Get("Authorization"))) },
		"hung up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String()+"x", http.StatusFound)
		},
		"unknown": jwks("b"),
	} {
		k := newKeys(t, respond)
		err := k.get(t.Context(), t, v, "a")
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "example.com") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// silent dials one connection that never answers, and then none. Like a net.Dialer, it times out by
// itself, not with the request.
func silent(line net.Conn, patience time.Duration) func(context.Context, string, string) (net.Conn, error) {
	lines := make(chan net.Conn, 1)
	lines <- line
	return func(context.Context, string, string) (net.Conn, error) {
		select {
		case c := <-lines:
			return c, nil
		case <-time.After(patience):
			return nil, errors.New("connection refused")
		}
	}
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{0: keyfetch.Timeout, time.Second: time.Second, time.Minute: time.Minute} {
		t.Run(want.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				f, v := keyfetch.New(&keyfetch.Options{Timeout: timeout, Dial: silent(ours, want+time.Second)}), set(t)
				ref, err := v.KeyRef(signedBy("a", time.Now()))
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					began := time.Now()
					_, err = f.Keys(t.Context(), v, ref, nil)
					if took := time.Since(began); !errors.Is(err, keyfetch.ErrUnavailable) || took != want {
						t.Errorf("got %v after %s", err, took)
					}
					if _, err = f.Keys(t.Context(), v, ref, nil); !errors.Is(err, keyfetch.ErrUnavailable) || time.Since(began) != want {
						t.Errorf("second request: %v after %s", err, time.Since(began))
					}
					time.Sleep(keyfetch.FailedFor)
				}
			})
		})
	}
}

// The caller has less time than a fetch may take.
func TestCallerThatCannotWait(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	k, v := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
		<-open
		jwks("a")(w, r)
	}), set(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("no time left")
	cancel(gone)
	if err := k.get(ctx, t, v, "a"); !errors.Is(err, keyfetch.ErrUnavailable) || !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	close(open)
	k.want(t, v, "a", nil)
	k.wantAsked(t, 1) // by the first caller
}
