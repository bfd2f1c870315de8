package hookonce_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// keyServer stands in for the key servers of the providers. It has a certificate for their host
// names, and holds the private key of the public keys that it serves.
type keyServer struct {
	private *rsa.PrivateKey
	fetcher *keyfetch.Fetcher
	asked   atomic.Int64
	host    atomic.Value // string: host and path of the last request
	respond atomic.Value // http.HandlerFunc; unset to answer with the key
}

func newKeyServer(t *testing.T) *keyServer {
	t.Helper()
	k := &keyServer{}
	var err error
	if k.private, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.asked.Add(1)
		k.host.Store(r.Host + r.URL.Path)
		if respond, ok := k.respond.Load().(http.HandlerFunc); ok && respond != nil {
			respond(w, r)
			return
		}
		k.serve(w, r)
	}))
	cert := k.certificate(t, "sns.eu-west-1.amazonaws.com", "sns.us-east-1.amazonaws.com", "sns.us-west-2.amazonaws.com", "keys.fireblocks.io", "www.googleapis.com")
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: k.private}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	k.fetcher = keyfetch.New(&keyfetch.Options{RootCAs: roots, Timeout: 30 * time.Second, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	return k
}

// certificate returns a self-signed certificate for hosts.
func (k *keyServer) certificate(t *testing.T, hosts ...string) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: hosts[0]}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.private.Public(), k.private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// serve answers with the key, as a certificate or as a JWK set. The path decides.
func (k *keyServer) serve(w http.ResponseWriter, r *http.Request) {
	number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	if strings.HasSuffix(r.URL.Path, ".pem") {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, k.private.Public(), k.private)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: der})
		return
	}
	_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"RSA","kid":"key-1","n":%q,"e":%q}]}`, number(k.private.N), number(big.NewInt(int64(k.private.E))))
}

// jwk returns the private key as a JWK with its id, for ParseKey.
func (k *keyServer) jwk() string {
	n := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	return fmt.Sprintf(`{"kty":"RSA","kid":"key-1","n":%q,"e":%q,"d":%q,"p":%q,"q":%q,"dp":%q,"dq":%q,"qi":%q}`, n(k.private.N),
		n(big.NewInt(int64(k.private.E))), n(k.private.D), n(k.private.Primes[0]), n(k.private.Primes[1]),
		n(k.private.Precomputed.Dp), n(k.private.Precomputed.Dq), n(k.private.Precomputed.Qinv))
}

// publicPEM returns the public key as PEM, for Source.Key.
func (k *keyServer) publicPEM(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// keyed is a source whose keys are fetched.
type keyed struct {
	source hookonce.Source
	body   string // of a delivery
	asks   string // host and path of its keys
}

const topic = "arn:aws:sns:eu-west-1:123456789012:orders"

func keyedSources() []keyed {
	notification := fmt.Sprintf(`{"Type":"Notification","MessageId":"m1","TopicArn":%q,"Message":"hello","Timestamp":%q,`+
		`"SignatureVersion":"2","Signature":"","SigningCertURL":"https://sns.eu-west-1.amazonaws.com/cert-1.pem"}`,
		topic, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	return []keyed{
		{
			hookonce.Source{Name: "sns", Provider: "aws-sns", Params: map[string]string{"topic_arn": topic}},
			notification, "sns.eu-west-1.amazonaws.com/cert-1.pem",
		},
		{hookonce.Source{Name: "coins", Provider: "fireblocks"}, `{"id":"e1","eventType":"x"}`, "keys.fireblocks.io/.well-known/jwks.json"},
		{
			hookonce.Source{Name: "pubsub", Provider: "google-pubsub", Params: map[string]string{"audience": "us", "email": "a@b"}},
			`{"subscription":"s","message":{"messageId":"1","data":""}}`, "www.googleapis.com/oauth2/v3/certs",
		},
	}
}

// signed returns a delivery, signed as the provider does.
func (k *keyServer) signed(t *testing.T, of *keyed) *http.Request {
	t.Helper()
	return hooktest.NewRequest(t, of.source, of.body, hooktest.WithSecret(k.jwk()))
}

// engine returns an engine that fetches keys from k.
func (k *keyServer) engine(t *testing.T, cfg *hookonce.Config) *hookonce.Engine {
	t.Helper()
	in := engineOf(t, rig.OpenSQLite(t), cfg)
	hookonce.SetFetcher(in, k.fetcher)
	return in
}

// Concurrent deliveries share one fetch of the key.
func TestKeysAreFetchedFromTheProvider(t *testing.T) {
	t.Parallel()
	for _, of := range keyedSources() {
		t.Run(of.source.Name, func(t *testing.T) {
			t.Parallel()
			k := newKeyServer(t)
			in := k.engine(t, settingsOf(of.source))
			var wg sync.WaitGroup
			answers := make([]string, 8)
			for i := range answers {
				r := k.signed(t, &of)
				wg.Go(func() { answers[i] = answerTo(in, r) })
			}
			wg.Wait()
			first := 0
			for _, got := range answers {
				if got == "ok" {
					first++
				} else if got != "duplicate" {
					t.Errorf("got %s, want ok once and duplicate", got)
				}
			}
			if first != 1 || k.asked.Load() != 1 || k.host.Load() != of.asks {
				t.Errorf("%d deliveries were ok, and the server was asked %d times, last for %v; want 1 and 1", first, k.asked.Load(), k.host.Load())
			}
			if got := answerTo(in, newKeyServer(t).signed(t, &of)); got != "401" {
				t.Errorf("signed with another key: %s, want 401", got)
			}
		})
	}
}

// A source with a key in its settings fetches nothing.
func TestConfiguredKeyIsNotFetched(t *testing.T) {
	t.Parallel()
	for _, of := range keyedSources() {
		t.Run(of.source.Name, func(t *testing.T) {
			t.Parallel()
			k := newKeyServer(t)
			of.source.Key = k.publicPEM(t)
			in := k.engine(t, settingsOf(of.source))
			if got := answerTo(in, k.signed(t, &of)); got != "ok" {
				t.Errorf("got %s, want ok", got)
			}
			if got := answerTo(in, newKeyServer(t).signed(t, &of)); got != "401" {
				t.Errorf("signed with another key: %s, want 401", got)
			}
			if n := k.asked.Load(); n != 0 {
				t.Errorf("the server was asked %d times, want never", n)
			}
		})
	}
}

// A failed fetch is not the sender's fault: the answer is 503, and the sender retries. A key that
// the sender must not name is a 401.
func TestKeysThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	sns, coins := keyedSources()[0], keyedSources()[1]
	foreign := sns
	foreign.body = strings.Replace(sns.body, "sns.eu-west-1.amazonaws.com", "sns.eu-west-1.amazonaws.com.example.com", 1)
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	tests := []struct {
		name    string
		of      keyed
		respond http.HandlerFunc
		want    int
		again   int // the answer to the same request
		asked   int64
	}{
		{"certificate, server down", sns, down, http.StatusServiceUnavailable, http.StatusServiceUnavailable, 1},
		{"set, server down", coins, down, http.StatusServiceUnavailable, http.StatusServiceUnavailable, 1},
		{"certificate not found", sns, http.NotFound, http.StatusUnauthorized, http.StatusUnauthorized, 1},
		{"set not found", coins, http.NotFound, http.StatusServiceUnavailable, http.StatusServiceUnavailable, 1},
		{"set without the key", coins, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[{"kty":"RSA","kid":"key-2","n":"` + strings.Repeat("_", 341) + `w","e":"AQAB"}]}`))
		}, http.StatusUnauthorized, http.StatusServiceUnavailable, 1}, // the key may be newer than the fetched set
		{"certificate on a foreign host", foreign, nil, http.StatusUnauthorized, http.StatusUnauthorized, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newKeyServer(t)
			in := k.engine(t, settingsOf(tt.of.source))
			if tt.respond != nil {
				k.respond.Store(tt.respond)
			}
			for _, want := range []int{tt.want, tt.again} {
				w := httptest.NewRecorder()
				in.ServeHTTP(w, k.signed(t, &tt.of))
				if retry := w.Header().Get("Retry-After"); w.Code != want || (retry != "") != (want == http.StatusServiceUnavailable) {
					t.Errorf("answer %d, Retry-After %q, want %d", w.Code, retry, want)
				}
			}
			if n := k.asked.Load(); n != tt.asked {
				t.Errorf("the server was asked %d times, want %d", n, tt.asked)
			}
		})
	}
}

// Each client behind a trusted proxy may name its own five unknown keys a minute.
func TestKeyFetchesAreLimitedByClient(t *testing.T) {
	t.Parallel()
	k := newKeyServer(t)
	k.respond.Store(http.HandlerFunc(http.NotFound))
	of := keyedSources()[0]
	cfg := settingsOf(of.source)
	cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	in := k.engine(t, cfg)
	unknown := func(n int, client string) string {
		named := of
		named.body = strings.Replace(of.body, "cert-1.pem", fmt.Sprintf("unknown-%d.pem", n), 1)
		r := k.signed(t, &named)
		r.RemoteAddr = "10.0.0.1:1"
		r.Header.Set("X-Forwarded-For", "192.0.2.99, "+client)
		return answerTo(in, r)
	}
	for n, want := range []string{"401", "401", "401", "401", "401", "429"} {
		if got := unknown(n, "198.51.100.1"); got != want {
			t.Errorf("unknown key %d of a client: %s, want %s", n, got, want)
		}
	}
	if got := unknown(6, "198.51.100.2"); got != "401" {
		t.Errorf("an unknown key of another client: %s, want 401", got)
	}
}

// A reload keeps the fetched keys.
func TestReloadKeepsKeys(t *testing.T) {
	t.Parallel()
	k, of := newKeyServer(t), keyedSources()[0]
	in := k.engine(t, settingsOf(of.source))
	answers := []string{answerTo(in, k.signed(t, &of))}
	if err := in.Reload(settingsOf(of.source)); err != nil {
		t.Fatal(err)
	}
	answers = append(answers, answerTo(in, k.signed(t, &of)))
	if diff := cmp.Diff([]string{"ok", "duplicate"}, answers); diff != "" || k.asked.Load() != 1 {
		t.Errorf("the server was asked %d times, want once; answers (-want +got):\n%s", k.asked.Load(), diff)
	}
}

// The secrets of the settings come first, then the learned ones from the newest. The first secret
// of all answers handshakes.
func TestOrderOfSecrets(t *testing.T) {
	t.Parallel()
	const own = "the secret of the settings"
	store := rig.OpenSQLite(t)
	asana := hookonce.Source{Name: "asana", Provider: provider.Asana, Secrets: hookonce.StaticSecrets(own)}
	in := engineOf(t, store, settingsOf(asana))
	want := []string{own}
	for _, first := range []string{"1", "2", "3"} {
		if _, err := in.Arm(t.Context(), "asana", time.Minute, false); err != nil {
			t.Fatal(err)
		}
		secret := first + strings.Repeat("0", 31)
		r := httptest.NewRequest(http.MethodPost, "/webhooks/asana", strings.NewReader("{}"))
		r.Header.Set("X-Hook-Secret", secret)
		w := httptest.NewRecorder()
		if in.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("armed: answer %d %s, want 200", w.Code, w.Body)
		}
		want = slices.Insert(want, 1, secret)
	}
	for when, in := range map[string]*hookonce.Engine{
		"in the process that learned": in, "in a new process": engineOf(t, store, settingsOf(asana)),
	} {
		got, err := hookonce.SecretsInForce(t.Context(), in, "asana")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, secrets (-want +got):\n%s", when, err, diff)
		}
	}
}
