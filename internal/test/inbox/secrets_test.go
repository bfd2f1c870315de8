package inbox_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

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

// A key of zero bytes gives the same HMAC as the empty key, which everyone knows. No way into the
// settings accepts one, and secrets that come later verify nothing.
func TestSecretsOfZeroBytesAreRefused(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 32)
	store := rig.OpenSQLite(t)
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
		if _, err := hookonce.NewEngine(store, cfg); err == nil || !strings.Contains(err.Error(), "only zero bytes") {
			t.Errorf("%s: NewEngine returns %v, want an error about zero bytes", name, err)
		}
	}

	in := newEngine(t, store, func(c *hookonce.Config) {
		perTenant := hookonce.SecretsFunc(func(context.Context, *http.Request) ([]string, error) { return []string{zeros}, nil })
		c.Sources[0].Secrets = perTenant
		c.Sources = append(c.Sources, hookonce.Source{Name: "x", Provider: provider.X, Secrets: perTenant}, asanaSource(nil))
	})
	mac := hmac.New(sha256.New, nil)
	mac.Write([]byte("{}"))
	sum := hex.EncodeToString(mac.Sum(nil))
	if got := deliver(in, delivery("1", "{}", func(r *http.Request) { r.Header.Set(githubSignature, "sha256="+sum) })); got.Code != 503 {
		t.Errorf("a delivery signed with the empty key: %+v, want 503", got)
	}
	w := answered(in, httptest.NewRequest(http.MethodGet, "/webhooks/x?crc_token=abc", http.NoBody))
	if w.Code != 503 || strings.Contains(w.Body.String(), "sha256=") {
		t.Errorf("a handshake that the empty key would sign: %d %s, want 503", w.Code, w.Body)
	}
	arm(t, in, time.Minute)
	if got := hand(in, zeros); got != 400 {
		t.Errorf("zero bytes were handed over: %d, want 400", got)
	}
	event := httptest.NewRequest(http.MethodPost, "/webhooks/asana", strings.NewReader("{}"))
	event.Header.Set("X-Hook-Signature", sum)
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
	store, release := rig.OpenSQLite(t), make(chan struct{})
	t.Cleanup(func() { close(release) })
	returns := func(secrets []string, err error) hookonce.SecretsFunc {
		return func(context.Context, *http.Request) ([]string, error) { return secrets, err }
	}
	for name, secrets := range map[string]hookonce.SecretsFunc{
		"panics":                    func(context.Context, *http.Request) ([]string, error) { panic("a defect") },
		"ends its goroutine":        func(context.Context, *http.Request) ([]string, error) { runtime.Goexit(); return nil, nil },
		"never returns":             func(context.Context, *http.Request) ([]string, error) { <-release; return nil, nil },
		"returns an error":          returns(nil, errors.New("a defect")),
		"returns no secret":         returns(nil, nil),
		"returns an empty secret":   returns([]string{""}, nil),
		"returns a blank one, too":  returns([]string{secret, " "}, nil),
		"returns nothing but zeros": returns([]string{strings.Repeat("\x00", 32)}, nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := newEngine(t, store, func(c *hookonce.Config) {
				c.Sources[0].Secrets, c.Sources[0].AckTimeout = secrets, time.Second
			})
			own := httptest.NewRecorder()
			if _, err := in.Verify(own, delivery("1", "{}")); err == nil {
				t.Error("Verify accepted the delivery")
			} else {
				in.Refuse(own, delivery("1", "{}"), err)
			}
			for way, w := range map[string]*httptest.ResponseRecorder{"ServeHTTP": answered(in, delivery("1", "{}")), "Refuse": own} {
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
					t.Errorf("%s: the answer is %d with Retry-After %q, want 503 with a time", way, w.Code, w.Header().Get("Retry-After"))
				}
				if strings.Contains(w.Body.String(), "defect") {
					t.Errorf("%s: the answer tells the sender about the defect: %s", way, w.Body)
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
	const want = `sources.gh.secrets: SecretsFunc(nil) has no function to call`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("New returned the error %v, want %q", err, want)
	}
}
