package hookonce_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/verify"
)

// snsServer stands in for the provider's server. Its fetcher sends every host name to it.
type snsServer struct {
	fetcher   *keyfetch.Fetcher
	confirmed chan string // the fetched URLs, without the scheme
}

// newSNS starts a server that answers with respond.
func newSNS(t *testing.T, respond http.HandlerFunc) *snsServer {
	t.Helper()
	s := &snsServer{confirmed: make(chan string, 8)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.confirmed <- r.Host + r.URL.RequestURI()
		respond(w, r)
	}))
	cert := selfSigned(t, "sns.us-east-1.amazonaws.com")
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	s.fetcher = keyfetch.New(&keyfetch.Options{
		RootCAs: roots, Timeout: 30 * time.Second,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, server.Listener.Addr().String())
		},
	})
	return s
}

// selfSigned returns a certificate for a host name.
func selfSigned(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// subscriber is an engine with the request that asks it to confirm a subscription.
type subscriber struct {
	engine *hookonce.Engine
	source hookonce.Source
	shake  *shakeCase
	sign   func(*verify.Request)
}

func newSubscriber(t *testing.T, sns *snsServer) *subscriber {
	t.Helper()
	cases := savedShakes(t)
	i := slices.IndexFunc(cases, func(c shakeCase) bool { return c.Confirms != "" })
	s := &subscriber{shake: &cases[i]}
	s.source, s.sign = s.shake.source(t)
	s.engine = newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Sources = []hookonce.Source{s.source} })
	hookonce.SetFetcher(s.engine, sns.fetcher)
	return s
}

// confirm sends the request.
func (s *subscriber) confirm() *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.engine.ServeHTTP(w, s.shake.request(s.sign, &s.source))
	return w
}

// While eight confirmations hang, the engine does not start a ninth. It answers 503, so that the
// provider asks again.
func TestConfirmationsAreBounded(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	sns := newSNS(t, func(http.ResponseWriter, *http.Request) { <-open })
	t.Cleanup(func() { close(open) }) // runs before the server closes, which waits for its requests
	s := newSubscriber(t, sns)
	for i := range 8 {
		if w := s.confirm(); w.Code != http.StatusOK {
			t.Errorf("confirmation %d: answer %d %s, want 200", i+1, w.Code, w.Body)
		}
		<-sns.confirmed
	}
	if w := s.confirm(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("confirmation 9: answer %d %v, want 503 with Retry-After", w.Code, w.Header())
	}
	if n := len(sns.confirmed); n != 0 {
		t.Errorf("the engine started %d more confirmations", n)
	}
}

// Run retries a failed confirmation: the provider already has its answer and does not ask again.
func TestFailedConfirmationIsRetried(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	confirmed := make(chan struct{})
	sns := newSNS(t, func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		close(confirmed)
	})
	s := newSubscriber(t, sns)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.engine.Run(ctx) }()
	if w := s.confirm(); w.Code != http.StatusOK {
		t.Fatalf("answer %d %s, want 200", w.Code, w.Body)
	}
	eventually.Receive(t, "the confirmation is retried", confirmed)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
