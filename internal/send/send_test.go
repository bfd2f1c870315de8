package send

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// clock is the time in all tests.
var clock = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newSender(t *testing.T) *Sender {
	t.Helper()
	s := New(&Options{Now: func() time.Time { return clock }})
	t.Cleanup(s.CloseIdle)
	return s
}

// to returns a target on this machine, with a long timeout for slow machines.
func to(url string) *Target {
	return &Target{URL: url, AllowPrivate: true, Timeout: time.Minute}
}

func message() *Message {
	return &Message{ID: "msg_1", Attempt: 1, Body: []byte(`{"id":"evt_1"}`)}
}

// serve starts a server and returns its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestSendSuccess(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 204, 299} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.RequestURI() != "/in/x?a=b" {
				t.Errorf("got %s %s", r.Method, r.URL.RequestURI())
			}
			w.WriteHeader(status)
			if status != 204 {
				io.WriteString(w, "thanks\n")
			}
		})
		got := newSender(t).Send(t.Context(), to(url+"/in/x?a=b"), message())
		if diff := cmp.Diff(Result{StatusCode: status}, got); diff != "" {
			t.Errorf("%d: (-want +got)\n%s", status, diff)
		}
	}
}

func TestSendBodyByteForByte(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	bodies := map[string][]byte{
		"nothing": nil, "empty": {}, "every byte": all, "spaces": []byte(" {\n \"a\" : 1e400 }\r\n\x00"),
		"2 MiB": bytes.Repeat(all, 8<<10),
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []byte
			var length int64
			var encoding, contentType string
			url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				got, _ = io.ReadAll(r.Body)
				length, encoding, contentType = r.ContentLength, r.Header.Get("Content-Encoding"), r.Header.Get("Content-Type")
			})
			msg := message()
			msg.Body = body
			msg.Header = http.Header{"Content-Type": {"application/x-odd; a=b"}, "Content-Encoding": {"gzip"}, "Content-Length": {"3"}}
			if res := newSender(t).Send(t.Context(), to(url), msg); res.Err != nil {
				t.Fatal(res.Err)
			}
			if !bytes.Equal(got, body) || length != int64(len(body)) {
				t.Errorf("%d bytes of %d arrived, declared %d", len(got), len(body), length)
			}
			if encoding != "gzip" || contentType != "application/x-odd; a=b" {
				t.Errorf("Content-Encoding %q, Content-Type %q", encoding, contentType)
			}
		})
	}
}

func TestSendStatus(t *testing.T) {
	t.Parallel()
	date := clock.Add(90 * time.Second).Format(http.TimeFormat)
	tests := []struct {
		status     int
		retryAfter string
		body       string
		want       Result
	}{
		{status: 500, body: "boom", want: Result{Detail: "boom"}},
		{status: 400, want: Result{Detail: "400 Bad Request"}},
		{status: 599, want: Result{Detail: "599"}},
		{status: 410, body: "gone", want: Result{Permanent: true, Detail: "gone"}},
		{status: 404, body: "no", want: Result{Detail: "no"}},
		{status: 429, retryAfter: "7", body: "slow", want: Result{RetryAfter: 7 * time.Second, Detail: "slow"}},
		{status: 503, retryAfter: date, body: "later", want: Result{RetryAfter: 90 * time.Second, Detail: "later"}},
		{status: 429, retryAfter: "soon", body: "x", want: Result{Detail: "x"}},
		{status: 503, retryAfter: "999999", body: "x", want: Result{RetryAfter: 24 * time.Hour, Detail: "x"}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d %s", tt.status, tt.retryAfter), func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			got := newSender(t).Send(t.Context(), to(url), message())
			if !errors.Is(got.Err, ErrStatus) || got.StatusCode != tt.status {
				t.Errorf("status %d, error %v", got.StatusCode, got.Err)
			}
			if tt.body == "" && strings.Contains(got.Detail, tt.want.Detail) {
				got.Detail = tt.want.Detail
			}
			got.StatusCode, got.Err = 0, nil
			if tt.body != "" {
				tt.want.Response, tt.want.ResponseType = []byte(tt.body), "text/plain; charset=utf-8"
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSendFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		var followed atomic.Bool
		elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { followed.Store(true) })
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere)
			w.WriteHeader(status)
		})
		got := newSender(t).Send(t.Context(), to(url), message())
		if !errors.Is(got.Err, ErrStatus) || got.StatusCode != status || got.Permanent || followed.Load() {
			t.Errorf("%d: %+v, followed %v", status, got, followed.Load())
		}
	}
}

func TestSendSigns(t *testing.T) {
	t.Parallel()
	key := []byte{0, 1, 2, 250, 251, 252, 'k', 'e', 'y', 0, 0, 0, 9, 9, 9, 9}
	secrets := map[string][]byte{
		"whsec_" + base64.StdEncoding.EncodeToString(key): key,
		"a plain secret of some length":                   []byte("a plain secret of some length"),
	}
	for secret, key := range secrets {
		var got http.Header
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
		target, msg := to(url), message()
		target.Secret = secret
		msg.Header = http.Header{"Webhook-Signature": {"v1,forged"}, "Webhook-Timestamp": {"1"}, "Svix-Id": {"theirs"}}
		if res := newSender(t).Send(t.Context(), target, msg); res.Err != nil {
			t.Fatal(res.Err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "msg_1.%d.%s", clock.Unix(), msg.Body)
		want := http.Header{
			"Webhook-Id":        {"msg_1"},
			"Webhook-Timestamp": {fmt.Sprint(clock.Unix())},
			"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
			"Svix-Id":           nil,
		}
		for name := range want {
			if diff := cmp.Diff(want[name], got[name]); diff != "" {
				t.Errorf("%s (-want +got)\n%s", name, diff)
			}
		}
	}
}

// An invalid message must not be sent in another form, in particular not unsigned.
func TestSendRefuses(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	tests := map[string]func(*Target, *Message){
		"secret not base64":  func(t *Target, _ *Message) { t.Secret = "whsec_!!" + canary },
		"secret empty":       func(t *Target, _ *Message) { t.Secret = "whsec_" },
		"secret blank":       func(t *Target, _ *Message) { t.Secret = " \t" },
		"id empty":           func(_ *Target, m *Message) { m.ID = "" },
		"id with dot":        func(_ *Target, m *Message) { m.ID = "a.b" },
		"id with line feed":  func(_ *Target, m *Message) { m.ID = "a\r\nX-A: b" },
		"id with space":      func(_ *Target, m *Message) { m.ID = "a b" },
		"id not ASCII":       func(_ *Target, m *Message) { m.ID = "é" },
		"id too long":        func(_ *Target, m *Message) { m.ID = strings.Repeat("a", 256) },
		"URL malformed":      func(t *Target, _ *Message) { t.URL = "http://a b/" + canary },
		"URL with control":   func(t *Target, _ *Message) { t.URL = "http://a/\n" + canary },
		"URL without scheme": func(t *Target, _ *Message) { t.URL = "localhost/" + canary },
		"URL of a file":      func(t *Target, _ *Message) { t.URL = "file:///etc/" + canary },
		"URL without host":   func(t *Target, _ *Message) { t.URL = "http:///" + canary },
		"URL of a port":      func(t *Target, _ *Message) { t.URL = "http://:80/" + canary },
		"URL of a high port": func(t *Target, _ *Message) { t.URL = "http://127.0.0.1:99999/" + canary },
		"URL of port 0":      func(t *Target, _ *Message) { t.URL = "http://127.0.0.1:0/" + canary },
		"URL without a port": func(t *Target, _ *Message) { t.URL = "http://127.0.0.1:/" + canary },
		"URL of no address":  func(t *Target, _ *Message) { t.URL = "http://10.0.0.256/" + canary },
		"URL of no name":     func(t *Target, _ *Message) { t.URL = "http://a..b/" + canary },
		"URL of a template":  func(t *Target, _ *Message) { t.URL = "http://<host>/" + canary },
		"URL with a space":   func(t *Target, _ *Message) { t.URL = "http://a/b c" + canary },
		"URL with fragment":  func(t *Target, _ *Message) { t.URL = "http://a/#" + canary },
		"URL with a user":    func(t *Target, _ *Message) { t.URL = strings.Replace(t.URL, "://", "://"+canary+"@", 1) },
		"URL with password":  func(t *Target, _ *Message) { t.URL = strings.Replace(t.URL, "://", "://:"+canary+"@", 1) },
		"URL with both":      func(t *Target, _ *Message) { t.URL = strings.Replace(t.URL, "://", "://a:"+canary+"@", 1) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the message was sent") })
			target, msg := to(url), message()
			change(target, msg)
			got := newSender(t).Send(t.Context(), target, msg)
			if !errors.Is(got.Err, ErrRequest) || got.StatusCode != 0 || got.Permanent {
				t.Fatalf("got %+v", got)
			}
			if strings.Contains(got.Detail+got.Err.Error(), canary) {
				t.Errorf("secret in %q", got.Detail)
			}
			// The checks of the settings agree with Send.
			if err := CheckURL(target.URL); (err != nil) != strings.HasPrefix(name, "URL ") {
				t.Errorf("CheckURL: %v", err)
			}
			if _, err := CheckSecret(target.Secret); target.Secret != "" && err == nil {
				t.Error("CheckSecret accepts the secret")
			}
		})
	}
}

func TestSendErrorsHideURL(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	failures := map[string]string{
		"refused": "http://" + closedAddress(t),
		"status":  serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }),
		"address": "http://169.254.169.254",
	}
	for name, url := range failures {
		got := newSender(t).Send(t.Context(), to(url+"/"+canary+"?"+canary+"="+canary), message())
		if got.Err == nil || errors.Is(got.Err, ErrRequest) || strings.Contains(got.Detail+got.Err.Error(), canary) {
			t.Errorf("%s: %v", name, got.Err)
		}
	}
}

func TestSendTLS(t *testing.T) {
	t.Parallel()
	var proto atomic.Int32
	start := func(maxVersion uint16) *httptest.Server {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			proto.Store(int32(r.ProtoMajor))
		}))
		srv.EnableHTTP2 = true
		srv.TLS = &tls.Config{MaxVersion: maxVersion, MinVersion: tls.VersionTLS10}
		srv.Config.ErrorLog = discardLog
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv
	}
	modern, old := start(0), start(tls.VersionTLS11)

	got := newSender(t).Send(t.Context(), to(modern.URL), message())
	if _, ok := errors.AsType[x509.UnknownAuthorityError](got.Err); !ok || proto.Load() != 0 {
		t.Errorf("self-signed: %v", got.Err)
	}

	roots := x509.NewCertPool()
	roots.AddCert(modern.Certificate())
	s := New(&Options{RootCAs: roots})
	t.Cleanup(s.CloseIdle)
	if got := s.Send(t.Context(), to(modern.URL), message()); got.Err != nil || proto.Load() != 2 {
		t.Errorf("trusted: %v over HTTP/%d", got.Err, proto.Load())
	}
	if got := s.Send(t.Context(), to(old.URL), message()); got.Err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestSendCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client left
		cancel()
		<-r.Context().Done()
	})
	got := newSender(t).Send(ctx, to(url), message())
	if !errors.Is(got.Err, context.Canceled) || errors.Is(got.Err, context.DeadlineExceeded) {
		t.Errorf("got %v", got.Err)
	}
}

func TestSendConcurrently(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var n int
		if _, err := fmt.Sscanf(r.Header.Get("Webhook-Id"), "msg_%d", &n); err != nil || string(body) != fmt.Sprintf("msg_%d", n) {
			t.Errorf("id %q, body %q", r.Header.Get("Webhook-Id"), body)
		}
		w.WriteHeader(206 + n) // tells the answers apart
	})
	s := newSender(t)
	shared := http.Header{"X-Shared": {"1"}, "Webhook-Id": {"forged"}}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			id := fmt.Sprintf("msg_%d", i)
			got := s.Send(t.Context(), to(url), &Message{ID: id, Attempt: 1, Header: shared, Body: []byte(id)})
			if got.Err != nil || got.StatusCode != 206+i {
				t.Errorf("%s: %+v", id, got)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(http.Header{"X-Shared": {"1"}, "Webhook-Id": {"forged"}}, shared); diff != "" {
		t.Errorf("the message's headers were changed (-want +got)\n%s", diff)
	}
}

// A slow destination does not delay another destination on its host.
func TestSlowDestinationsDelayNoOther(t *testing.T) {
	t.Parallel()
	const slow = 300
	arrived, release := make(chan struct{}, slow), make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-release
		}
	})
	s := newSender(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(release)
	for range slow {
		wg.Go(func() {
			if got := s.Send(t.Context(), to(url+"/slow"), message()); got.Err != nil {
				t.Errorf("slow: %v", got.Err)
			}
		})
	}
	for range slow {
		eventually.Receive(t, "all sends reach the slow destination", arrived)
	}
	if got := s.Send(t.Context(), to(url+"/other"), message()); got.Err != nil {
		t.Errorf("the other destination: %v", got.Err)
	}
}
