package keyfetch_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/verify"
)

// patience is the timeout for servers that do answer: the machine may be slow.
const patience = 30 * time.Second

// keys is a provider's key server with a clock.
type keys struct {
	*keyfetch.Fetcher
	asked atomic.Int64 // requests
	may   func() bool  // see Keys
	down  atomic.Bool  // new connections get no answer

	mu      sync.Mutex
	now     time.Time
	respond http.HandlerFunc
}

// newKeys starts a server that answers with respond until answer replaces it.
func newKeys(t *testing.T, respond http.HandlerFunc) *keys {
	t.Helper()
	k := &keys{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), respond: respond}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.asked.Add(1)
		k.mu.Lock()
		respond := k.respond
		k.mu.Unlock()
		respond(w, r)
	}))
	t.Cleanup(server.Close)
	up := to(server)
	k.Fetcher = keyfetch.New(&keyfetch.Options{
		Now: k.clock, Timeout: patience, RootCAs: roots(server),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if k.down.Load() {
				return nil, errors.New("connection refused")
			}
			return up(ctx, network, address)
		},
	})
	return k
}

func roots(server *httptest.Server) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
}

// to dials server for every host name.
func to(server *httptest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
}

func (k *keys) clock() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

func (k *keys) pass(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = k.now.Add(d)
}

func (k *keys) answer(respond http.HandlerFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.respond = respond
}

// wantAsked fails unless the server got n requests since the last call.
func (k *keys) wantAsked(t *testing.T, n int64) {
	t.Helper()
	if got := k.asked.Swap(0); got != n {
		t.Errorf("the server was asked %d times, want %d", got, n)
	}
}

// want asks for the key of id. It fails unless the error matches; if match is nil, unless the key
// verifies a signature of that key.
func (k *keys) want(t *testing.T, v *verify.Verifier, id string, match error) {
	t.Helper()
	if err := k.get(t.Context(), t, v, id); !errors.Is(err, match) {
		t.Errorf("the key %q: got %v, want %v", id, err, match)
	}
}

func (k *keys) get(ctx context.Context, t *testing.T, v *verify.Verifier, id string) error {
	t.Helper()
	req := signedBy(id, k.clock())
	ref, err := v.KeyRef(req)
	if err != nil {
		t.Fatal(err)
	}
	found, err := k.Keys(ctx, v, ref, k.may)
	if err != nil {
		return err
	}
	return v.Verify(req, found)
}

// privateKey returns the key of id.
func privateKey(id string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(fmt.Sprintf("%-32.32s", id)))
}

func signedBy(id string, now time.Time) *verify.Request {
	const body = `{"id":"evt_1"}`
	signature := ed25519.Sign(privateKey(id), []byte(body))
	return &verify.Request{Method: http.MethodPost, Body: []byte(body), Now: now, Header: http.Header{
		"X-Key-Id": {id}, "X-Cert": {"https://example.com/" + id + ".pem"}, "X-Signature": {base64.StdEncoding.EncodeToString(signature)},
	}}
}

// jwks answers with a key set of these ids.
func jwks(ids ...string) http.HandlerFunc {
	var set []string
	for _, id := range ids {
		public := privateKey(id).Public().(ed25519.PublicKey)
		set = append(set, fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}`, id, base64.RawURLEncoding.EncodeToString(public)))
	}
	return say(http.StatusOK, `{"keys":[`+strings.Join(set, ",")+`]}`)
}

func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// each answers /keys/ID with that key, and with 404 unless the id begins with "known".
func each(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/keys/")
	if !strings.HasPrefix(id, "known") {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, spki(privateKey(id)))
}

func spki(key ed25519.PrivateKey) string {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(der)
}

// scheme compiles a scheme that fetches its keys from source; the host is that of httptest's
// certificate.
func scheme(t *testing.T, source verify.KeySource) *verify.Verifier {
	t.Helper()
	source.Host = `example\.com`
	v, err := verify.Compile(verify.Scheme{
		ID: "test", Family: verify.FamilySignature, Algorithm: verify.AlgorithmEd25519,
		Header: "X-Signature", Encoding: verify.EncodingBase64, KeyID: "header:X-Key-Id", Keys: &source,
		Params: []verify.Param{{Name: "password", Need: verify.NeedOptional}},
		Values: map[string]string{"password": "canary-7f3a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// set returns a scheme with all keys in one document, single one with a document for each key.
func set(t *testing.T) *verify.Verifier {
	return scheme(t, verify.KeySource{URL: "https://example.com/jwks.json", Format: verify.KeysJWKS})
}

func single(t *testing.T) *verify.Verifier {
	return scheme(t, verify.KeySource{URL: "https://example.com/keys/{kid}", Format: verify.KeysSPKI})
}

func TestKeysAreKeptForTheirAge(t *testing.T) {
	t.Parallel()
	k, v := newKeys(t, jwks("a", "b")), set(t)
	for _, id := range []string{"a", "b", "a", "b"} {
		k.want(t, v, id, nil)
		k.pass(19 * time.Minute)
	}
	k.wantAsked(t, 1)
	k.want(t, v, "a", nil) // 76 minutes later
	k.wantAsked(t, 1)
	k.pass(time.Hour - 1)
	k.want(t, v, "b", nil)
	k.wantAsked(t, 0)
	k.pass(1)
	k.want(t, v, "b", nil)
	k.wantAsked(t, 1)
}

// Requests that differ only in their body have different documents.
func TestKeysByPost(t *testing.T) {
	t.Parallel()
	k := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, ok := strings.CutPrefix(string(body), `{"secret":"canary-7f3a","id":"`)
		if !ok || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("User-Agent") != "hookonce" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `{"found":{"key":%q}}`, spki(privateKey(strings.TrimSuffix(id, `"}`))))
	})
	v := scheme(t, verify.KeySource{
		URL: "https://example.com/get", Method: http.MethodPost, Body: `{"secret":{param:password},"id":{kid}}`,
		Header: map[string]string{"Content-Type": "application/json"}, Format: verify.KeysSPKI, Member: "found.key",
	})
	for _, id := range []string{"a", "b", "a", "b"} {
		k.want(t, v, id, nil)
	}
	k.wantAsked(t, 2)
}

func TestWaitingCallersShareOneFetch(t *testing.T) {
	t.Parallel()
	const waiting = 64
	open := make(chan struct{})
	k, v := newKeys(t, func(w http.ResponseWriter, r *http.Request) {
		<-open
		jwks("a", "b")(w, r)
	}), set(t)
	var wg sync.WaitGroup
	var began sync.WaitGroup
	began.Add(waiting)
	for i := range waiting {
		wg.Go(func() {
			began.Done()
			k.want(t, v, []string{"a", "b"}[i%2], nil)
		})
	}
	began.Wait()
	close(open)
	wg.Wait()
	k.wantAsked(t, 1)
}

func TestUnknownKeyOfASet(t *testing.T) {
	t.Parallel()
	k, v := newKeys(t, jwks("a")), set(t)
	k.want(t, v, "new", keyfetch.ErrUnknown)
	for range 5 {
		k.want(t, v, "new", keyfetch.ErrUnknown)
		k.want(t, v, "a", nil)
	}
	k.wantAsked(t, 1)

	k.answer(jwks("a", "new"))
	k.pass(keyfetch.UnknownFor - 1)
	k.want(t, v, "new", keyfetch.ErrUnavailable) // the key may be newer than the document
	k.wantAsked(t, 0)
	k.pass(1)
	k.want(t, v, "new", nil) // long before the document expires
	k.want(t, v, "a", nil)
	k.wantAsked(t, 1)

	// A failing server does not prove that the key is unknown.
	k.pass(keyfetch.UnknownFor)
	k.answer(say(http.StatusInternalServerError, ""))
	k.want(t, v, "newer", keyfetch.ErrUnavailable)
	k.want(t, v, "newer", keyfetch.ErrUnavailable)
	k.want(t, v, "new", nil)
	k.wantAsked(t, 1)
}

func TestUnknownKeyByItself(t *testing.T) {
	t.Parallel()
	k, v := newKeys(t, each), single(t)
	k.want(t, v, "known-1", nil)
	k.want(t, v, "nobody", keyfetch.ErrUnknown)
	k.want(t, v, "nobody", keyfetch.ErrUnknown)
	k.want(t, v, "known-1", nil)
	k.wantAsked(t, 2)
	k.pass(keyfetch.UnknownFor)
	k.want(t, v, "nobody", keyfetch.ErrUnknown)
	k.wantAsked(t, 1)
	// A server that answers 404 has withdrawn the key.
	k.answer(http.NotFound)
	k.pass(time.Hour)
	k.want(t, v, "known-1", keyfetch.ErrUnknown)
	k.wantAsked(t, 1)
}

func TestFailingServerIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, status := range []int{204, 302, 400, 401, 403, 404, 429, 500, 503} {
		k, v := newKeys(t, say(status, "")), set(t)
		for range 3 {
			k.want(t, v, "a", keyfetch.ErrUnavailable)
		}
		k.pass(keyfetch.FailedFor - 1)
		k.want(t, v, "a", keyfetch.ErrUnavailable)
		k.wantAsked(t, 1)
		k.pass(1)
		k.answer(jwks("a"))
		k.want(t, v, "a", nil)
		k.wantAsked(t, 1)
	}
}

func TestStaleKeysWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]http.HandlerFunc{
		"failing": say(http.StatusBadGateway, ""), "nonsense": say(http.StatusOK, "<html>"), "empty": say(http.StatusOK, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, v := newKeys(t, jwks("a")), set(t)
			k.want(t, v, "a", nil)
			k.wantAsked(t, 1)
			k.answer(down)
			k.pass(time.Hour)
			k.want(t, v, "a", nil)
			k.want(t, v, "a", nil)
			k.want(t, v, "b", keyfetch.ErrUnavailable)
			k.wantAsked(t, 1)
			k.pass(keyfetch.StaleFor - 1)
			k.want(t, v, "a", nil)
			k.pass(1)
			k.want(t, v, "a", keyfetch.ErrUnavailable)
			k.wantAsked(t, 1)
			k.pass(keyfetch.FailedFor)
			k.answer(jwks("b"))
			k.want(t, v, "a", keyfetch.ErrUnknown) // withdrawn meanwhile
			k.want(t, v, "b", nil)
			k.wantAsked(t, 1)
		})
	}
}

// Made-up ids use up the budget of their scheme, but not that of others, and known keys still work.
func TestMadeUpKeys(t *testing.T) {
	t.Parallel()
	k, v, other := newKeys(t, each), single(t), single(t)
	k.want(t, v, "known-1", nil)
	unknown, refused := 0, 0
	for i := range 100 {
		switch err := k.get(t.Context(), t, v, fmt.Sprintf("made-up-%d", i)); {
		case errors.Is(err, keyfetch.ErrUnknown):
			unknown++
		case errors.Is(err, keyfetch.ErrUnavailable):
			refused++
		}
	}
	if unknown != 19 || refused != 81 {
		t.Errorf("%d were looked for and %d refused, want 19 and 81", unknown, refused)
	}
	k.wantAsked(t, 20)
	k.pass(time.Hour)
	k.want(t, v, "known-1", nil)
	k.want(t, other, "known-2", nil)
	k.want(t, v, "known-3", nil)
	k.wantAsked(t, 3)
}

// The number of documents is bounded, and missing ones are evicted first.
func TestDocumentsAreBounded(t *testing.T) {
	t.Parallel()
	k := newKeys(t, each)
	v := single(t)
	k.want(t, v, "known-1", nil)
	k.flood(t)
	if got := keyfetch.Documents(k.Fetcher); got != 512 {
		t.Errorf("%d documents are kept", got)
	}
	k.want(t, v, "known-1", nil)
	k.wantAsked(t, 1)
}

// A certificate expires while it is cached.
func TestCertificateThatExpires(t *testing.T) {
	t.Parallel()
	k := newKeys(t, http.NotFound)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: k.clock(), NotAfter: k.clock().Add(30 * time.Minute)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, privateKey("a").Public(), privateKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	k.answer(say(http.StatusOK, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))))
	v := scheme(t, verify.KeySource{URLAt: "header:X-Cert", Path: `/[a-z]+\.pem`, Format: verify.KeysCertificate})
	k.want(t, v, "a", nil)
	k.pass(30 * time.Minute)
	k.want(t, v, "a", nil)
	k.pass(time.Minute)
	k.want(t, v, "a", keyfetch.ErrUnavailable)
	k.wantAsked(t, 1)
	// A certificate that the server does not know was made up.
	k.answer(http.NotFound)
	k.pass(time.Hour)
	k.want(t, v, "a", keyfetch.ErrUnknown)
	k.wantAsked(t, 1)
}
