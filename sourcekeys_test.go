package hookonce_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
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
	cert := k.certificate(t, "sns.eu-west-1.amazonaws.com", "keys.fireblocks.io", "www.googleapis.com")
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
	return signAs(t, &of.source, k.jwk(), of.body)
}

// engine returns an engine that fetches keys from k.
func (k *keyServer) engine(t *testing.T, sources ...hookonce.Source) *hookonce.Engine {
	t.Helper()
	for i := range sources {
		sources[i].AckTimeout = 30 * time.Second // the machine may be slow
	}
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) { c.Sources = sources })
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
			in := k.engine(t, of.source)
			var wg sync.WaitGroup
			results := make([]result, 8)
			for i := range results {
				r := k.signed(t, &of)
				wg.Go(func() { results[i] = deliver(in, r) })
			}
			wg.Wait()
			first := 0
			for _, got := range results {
				if got == ok {
					first++
				} else if got != duplicate {
					t.Errorf("got %+v, want ok once and duplicate", got)
				}
			}
			if first != 1 || k.asked.Load() != 1 || k.host.Load() != of.asks {
				t.Errorf("%d deliveries were ok, and the server was asked %d times, last for %v; want 1 and 1", first, k.asked.Load(), k.host.Load())
			}
			if got := deliver(in, newKeyServer(t).signed(t, &of)); got.Code != http.StatusUnauthorized {
				t.Errorf("signed with another key: %+v, want 401", got)
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
			in := k.engine(t, of.source)
			if got := deliver(in, k.signed(t, &of)); got != ok {
				t.Errorf("got %+v, want ok", got)
			}
			if got := deliver(in, newKeyServer(t).signed(t, &of)); got.Code != http.StatusUnauthorized {
				t.Errorf("signed with another key: %+v, want 401", got)
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
			in := k.engine(t, tt.of.source)
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
	of.source.AckTimeout = 30 * time.Second
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{of.source}
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	hookonce.SetFetcher(in, k.fetcher)
	unknown := func(n int, client string) int {
		named := of
		named.body = strings.Replace(of.body, "cert-1.pem", fmt.Sprintf("unknown-%d.pem", n), 1)
		r := k.signed(t, &named)
		r.RemoteAddr = "10.0.0.1:1"
		r.Header.Set("X-Forwarded-For", "192.0.2.99, "+client)
		return deliver(in, r).Code
	}
	for n, want := range []int{401, 401, 401, 401, 401, 429} {
		if got := unknown(n, "198.51.100.1"); got != want {
			t.Errorf("unknown key %d of a client: %d, want %d", n, got, want)
		}
	}
	if got := unknown(6, "198.51.100.2"); got != 401 {
		t.Errorf("an unknown key of another client: %d, want 401", got)
	}
}

// A reload keeps the fetched keys.
func TestReloadKeepsKeys(t *testing.T) {
	t.Parallel()
	k, of := newKeyServer(t), keyedSources()[0]
	in := k.engine(t, of.source)
	results := []result{deliver(in, k.signed(t, &of))}
	if err := in.Reload(&hookonce.Config{Sources: []hookonce.Source{of.source}}); err != nil {
		t.Fatal(err)
	}
	results = append(results, deliver(in, k.signed(t, &of)))
	if diff := cmp.Diff([]result{ok, duplicate}, results); diff != "" || k.asked.Load() != 1 {
		t.Errorf("the server was asked %d times, want once; answers (-want +got):\n%s", k.asked.Load(), diff)
	}
}

// A client that goes away does not end the lookup of secrets. The lookup has a deadline of its own.
func TestSecretsOutliveTheClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.Sources[0].Secrets = hookonce.SecretsFunc(func(ctx context.Context, _ *http.Request) ([]string, error) {
			cancel() // the client goes away
			if _, bounded := ctx.Deadline(); !bounded {
				return nil, errors.New("the lookup has no deadline")
			}
			return []string{secret}, ctx.Err()
		})
	})
	if got := deliver(in, delivery("1", "{}").WithContext(ctx)); got != ok {
		t.Errorf("delivery: %+v, want ok", got)
	}
}

func TestNoActiveSecretsIs503(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]string{"none": nil, "empty": {""}, "blank": {secret, " "}} {
		in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
			c.Sources[0].Secrets = hookonce.SecretsFunc(func(context.Context, *http.Request) ([]string, error) { return secrets, nil })
		})
		if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
			t.Errorf("%s: %+v, want 503", name, got)
		}
	}
}

// A key of zero bytes gives the same HMAC as the empty key, which everyone knows. No way into the
// settings accepts one, and secrets that come later verify nothing.
func TestSecretsOfZeroBytesAreRefused(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 32)
	whsec := "whsec_" + strings.Repeat("AAAA", 8)
	for name, change := range map[string]func(*hookonce.Config){
		"raw": func(c *hookonce.Config) { c.Sources[0].Secrets = hookonce.StaticSecrets(secret, zeros) },
		"whsec_": func(c *hookonce.Config) {
			c.Sources[0].Provider, c.Sources[0].Secrets = provider.StandardWebhooks, hookonce.StaticSecrets(whsec)
		},
		"destination": func(c *hookonce.Config) {
			c.Destinations = []hookonce.Destination{{Name: "a", URL: "http://a/", Secret: zeros}}
		},
		"whsec_ of a destination": func(c *hookonce.Config) {
			c.Destinations = []hookonce.Destination{{Name: "a", URL: "http://a/", Secret: whsec}}
		},
	} {
		cfg := settings("")
		change(cfg)
		if _, err := hookonce.NewEngine(rig.OpenSQLite(t), cfg); err == nil || !strings.Contains(err.Error(), "only zero bytes") {
			t.Errorf("%s: NewEngine returns %v, want an error about zero bytes", name, err)
		}
	}

	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		perTenant := hookonce.SecretsFunc(func(context.Context, *http.Request) ([]string, error) { return []string{zeros}, nil })
		c.Sources[0].Secrets = perTenant
		c.Sources = append(c.Sources, hookonce.Source{Name: "x", Provider: provider.X, Secrets: perTenant}, asanaSource(nil))
	})
	forged := delivery("1", "{}")
	mac := hmac.New(sha256.New, nil)
	mac.Write([]byte("{}"))
	forged.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	if got := deliver(in, forged); got.Code != 503 {
		t.Errorf("a delivery signed with the empty key: %+v, want 503", got)
	}
	w := httptest.NewRecorder()
	in.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/webhooks/x?crc_token=abc", http.NoBody))
	if w.Code != 503 || strings.Contains(w.Body.String(), "sha256=") {
		t.Errorf("a handshake that the empty key would sign: %d %s, want 503", w.Code, w.Body)
	}
	arm(t, in, time.Minute)
	if got := hand(in, zeros); got != 400 {
		t.Errorf("zero bytes were handed over: %d, want 400", got)
	}
	event := httptest.NewRequest(http.MethodPost, "/webhooks/asana", strings.NewReader("{}"))
	event.Header.Set("X-Hook-Signature", hex.EncodeToString(mac.Sum(nil)))
	if got := deliver(asanaEngine(t, zerosLearned{store, zeros}, nil), event); got.Code != 503 {
		t.Errorf("a delivery under learned zero bytes: %+v, want 503", got)
	}
	nothingStored(t, store)
}

// zerosLearned is a store whose sources have each learned a secret that nothing checked.
type zerosLearned struct {
	driver.Store
	secret string
}

func (s zerosLearned) LearnedSecrets(ctx context.Context, sources []string) ([]driver.SourceSecrets, error) {
	all, err := s.Store.LearnedSecrets(ctx, sources)
	for i := range all {
		all[i].Secrets = []driver.LearnedSecret{{Secret: s.secret}}
	}
	return all, err
}

// Secrets are the user's code. Its faults are not the sender's: the answer tells it to deliver again.
func TestFaultsOfSecretsAre503(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, secrets := range map[string]hookonce.SecretsFunc{
		"panics":             func(context.Context, *http.Request) ([]string, error) { panic("a defect") },
		"ends its goroutine": func(context.Context, *http.Request) ([]string, error) { runtime.Goexit(); return nil, nil },
		"never returns":      func(context.Context, *http.Request) ([]string, error) { <-release; return nil, nil },
		"returns an error":   func(context.Context, *http.Request) ([]string, error) { return nil, errors.New("no such tenant") },
		"returns no secret":  func(context.Context, *http.Request) ([]string, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &rig.Log{}
			in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
				c.Sources[0].Secrets, c.Sources[0].AckTimeout, c.Logger = secrets, time.Second, log.Logger()
			})
			for name, receive := range map[string]http.HandlerFunc{
				"ServeHTTP": in.ServeHTTP,
				"Verify": func(w http.ResponseWriter, r *http.Request) {
					_, err := in.Verify(w, r)
					if err == nil {
						t.Error("Verify accepted the delivery")
					}
					in.Refuse(w, r, err)
				},
			} {
				w := httptest.NewRecorder()
				receive(w, delivery("1", "{}"))
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
					t.Errorf("%s: the answer is %d with Retry-After %q, want 503 with a time", name, w.Code, w.Header().Get("Retry-After"))
				}
				if strings.Contains(w.Body.String(), "defect") {
					t.Errorf("%s: the answer tells the sender about the defect: %s", name, w.Body)
				}
			}
		})
	}
}

func TestNilSecretsFunc(t *testing.T) {
	t.Parallel()
	_, err := hookonce.NewEngine(rig.OpenSQLite(t), &hookonce.Config{Sources: []hookonce.Source{{
		Name: "gh", Provider: provider.GitHub, Secrets: hookonce.SecretsFunc(nil),
	}}})
	const want = `source "gh": secrets: SecretsFunc(nil) has no function to call`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("New returned the error %v, want %q", err, want)
	}
}
