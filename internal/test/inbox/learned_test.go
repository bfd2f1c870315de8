package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// delivered is the secret that the tests hand over.
const delivered = "0123456789abcdef0123456789abcdef"

func asanaSource(secrets hookonce.Secrets) hookonce.Source {
	return hookonce.Source{Name: "asana", Provider: provider.Asana, Secrets: secrets, AckTimeout: 30 * time.Second}
}

func asanaEngine(t *testing.T, store driver.Store, change func(*hookonce.Config)) *hookonce.Engine {
	return newEngine(t, store, func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{asanaSource(nil)}
		if change != nil {
			change(c)
		}
	})
}

// hand hands a secret over. It returns the status of the answer, or -1 for a 200 that does not
// repeat the secret.
func hand(in http.Handler, secret string) int {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/asana", strings.NewReader("{}"))
	r.Header.Set("X-Hook-Secret", secret)
	w := answered(in, r)
	if w.Code == http.StatusOK && w.Header().Get("X-Hook-Secret") != secret {
		return -1
	}
	return w.Code
}

// signedAsana returns the status of the answer to a delivery signed with secret.
func signedAsana(t *testing.T, in http.Handler, secret string) int {
	t.Helper()
	r := hooktest.NewRequest(t, asanaSource(hookonce.StaticSecrets(secret)),
		`{"events":[{"action":"added","resource":{"gid":"1","resource_type":"task"}}]}`)
	return deliver(in, r).Code
}

func arm(t *testing.T, in *hookonce.Engine, long time.Duration) {
	t.Helper()
	if _, err := in.Arm(t.Context(), "asana", long, false); err != nil {
		t.Fatal(err)
	}
}

// One secret is in force in two processes and after a restart.
func TestLearnedSecretIsInForce(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a, b := asanaEngine(t, store, nil), asanaEngine(t, store, nil)
	for _, in := range []*hookonce.Engine{a, b} {
		if got := signedAsana(t, in, delivered); got != http.StatusServiceUnavailable {
			t.Fatalf("without a secret: answer %d, want 503", got)
		}
	}
	if got := hand(a, delivered); got != http.StatusForbidden {
		t.Fatalf("not armed: answer %d, want 403", got)
	}
	arm(t, b, time.Minute)
	if got := hand(a, delivered); got != http.StatusOK {
		t.Fatalf("armed: answer %d, want 200", got)
	}
	if got := signedAsana(t, a, delivered); got != http.StatusOK {
		t.Errorf("a delivery to the process that learned: answer %d, want 200", got)
	}
	run(t, b) // it reads the learned secrets once a second
	eventually.True(t, "the secret is in force elsewhere", func() bool { return signedAsana(t, b, delivered) == http.StatusOK })
	// A sender that lost the answer hands the same secret over again.
	for _, in := range []*hookonce.Engine{a, b, asanaEngine(t, store, nil)} {
		if got := hand(in, delivered); got != http.StatusOK {
			t.Errorf("the same secret again: answer %d, want 200", got)
		}
		if got := hand(in, "f"+delivered[1:]); got != http.StatusForbidden {
			t.Errorf("another secret: answer %d, want 403", got)
		}
		if got := signedAsana(t, in, "f"+delivered[1:]); got != http.StatusUnauthorized {
			t.Errorf("a delivery signed with another secret: answer %d, want 401", got)
		}
	}
}

// A learned secret is in force beside the secrets of the settings. It survives a reload, and is
// replaced only on demand.
func TestLearnedBesideSettings(t *testing.T) {
	t.Parallel()
	const own = "the secret of the settings"
	in := asanaEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{asanaSource(hookonce.StaticSecrets(own))}
	})
	arm(t, in, time.Minute)
	if got := hand(in, delivered); got != http.StatusOK {
		t.Fatalf("armed: answer %d, want 200", got)
	}
	check := func(when string, want map[string]int) {
		t.Helper()
		for secret, code := range want {
			if got := signedAsana(t, in, secret); got != code {
				t.Errorf("%s, signed with %q: answer %d, want %d", when, secret, got, code)
			}
		}
	}
	check("learned", map[string]int{own: 200, delivered: 200, "neither of the two..": 401})
	if err := in.Reload(&hookonce.Config{Sources: []hookonce.Source{asanaSource(nil)}}); err != nil {
		t.Fatal(err)
	}
	check("reloaded without own secrets", map[string]int{own: 401, delivered: 200})
	if _, err := in.Arm(t.Context(), "asana", time.Minute, true); err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("e", 32)
	if got := hand(in, other); got != http.StatusOK {
		t.Fatalf("armed to replace: answer %d, want 200", got)
	}
	check("replaced", map[string]int{delivered: 401, other: 200})
}

// Neither the log nor the status nor the state of the source shows a learned secret.
func TestSecretIsNotShown(t *testing.T) {
	t.Parallel()
	store, log := rig.OpenSQLite(t), &rig.Log{}
	in := asanaEngine(t, store, func(c *hookonce.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	hand(in, delivered)
	arm(t, in, time.Minute)
	state, err := in.Arm(t.Context(), "asana", time.Minute, false)
	if err != nil {
		t.Fatal(err)
	}
	hand(in, delivered)
	hand(in, "x"+delivered)
	signedAsana(t, in, delivered)
	shown, err := json.Marshal([]any{in.Operator().Sources(), state, learned(t, store)})
	if err != nil {
		t.Fatal(err)
	}
	all := log.Text() + string(shown) + fmt.Sprintf("%v %+v", learned(t, store), in.Operator().Sources())
	if strings.Contains(all, delivered) || !strings.Contains(all, "hookonce sources arm asana") {
		t.Errorf("want the hint how to arm, and not the secret, in:\n%s", all)
	}
	if _, err := in.Arm(t.Context(), "asana", operate.MaxArmed+1, false); err == nil {
		t.Error("a source can be armed for longer than MaxArmed")
	}
}

// learned returns the learned secrets of the source asana. There must be one.
func learned(t *testing.T, store driver.Store) []driver.SourceSecrets {
	t.Helper()
	all, err := store.LearnedSecrets(t.Context(), []string{"asana"})
	if err != nil || len(all[0].Secrets) != 1 {
		t.Fatalf("%d learned secrets, error %v; want one", len(all[0].Secrets), err)
	}
	return all
}

// countingLearner counts the writes of learned secrets.
type countingLearner struct {
	driver.Store
	calls atomic.Int64
}

func (s *countingLearner) LearnSecret(ctx context.Context, p *driver.LearnParams) (bool, error) {
	s.calls.Add(1)
	return s.Store.LearnSecret(ctx, p)
}

// Anyone can hand a secret over. The engine writes to the database only if the source is armed.
func TestHandOverWritesOnlyIfArmed(t *testing.T) {
	t.Parallel()
	store := &countingLearner{Store: rig.OpenSQLite(t)}
	in := asanaEngine(t, store, nil)
	want := func(when, secret string, code int, calls int64) {
		t.Helper()
		if got := hand(in, secret); got != code || store.calls.Load() != calls {
			t.Errorf("%s: answer %d after %d writes, want %d after %d", when, got, store.calls.Load(), code, calls)
		}
	}
	want("not armed", delivered, http.StatusForbidden, 0)
	arm(t, in, time.Minute)
	arm(t, in, 0)
	want("disarmed", delivered, http.StatusForbidden, 0)
	arm(t, in, time.Minute)
	want("no valid key", strings.Repeat("\x00", 32), http.StatusBadRequest, 0)
	want("armed", delivered, http.StatusOK, 1)
	want("the same secret again", delivered, http.StatusOK, 1)
	want("another secret", "f"+delivered[1:], http.StatusForbidden, 1)
}

// slowLearned is a store that reads the learned secrets at once and returns them late.
type slowLearned struct {
	driver.Store
	read, release chan struct{} // for the next read only; nil to return at once
}

func (s *slowLearned) LearnedSecrets(ctx context.Context, sources []string) ([]driver.SourceSecrets, error) {
	all, err := s.Store.LearnedSecrets(ctx, sources)
	if read := s.read; read != nil {
		s.read = nil
		close(read)
		<-s.release
	}
	return all, err
}

// The upkeep reads before a secret is learned, and returns after it. The secret stays in force.
func TestLateReadKeepsTheLearnedSecret(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	store := &slowLearned{Store: rig.OpenSQLite(t), read: read, release: make(chan struct{})}
	in := asanaEngine(t, store, nil)
	arm(t, in, time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	<-read
	if got := hand(in, delivered); got != http.StatusOK {
		t.Fatalf("armed: answer %d, want 200", got)
	}
	stop() // no later read follows, which would find the secret
	close(store.release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := signedAsana(t, in, delivered); got != http.StatusOK {
		t.Errorf("signed with the learned secret: answer %d, want 200", got)
	}
}

// Verify returns an error for a handshake, and Refuse answers it.
func TestRefuseAnswersHandshakes(t *testing.T) {
	t.Parallel()
	in := asanaEngine(t, rig.OpenSQLite(t), nil)
	arm(t, in, time.Minute)
	got := hand(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := in.Verify(w, r); err == nil || !strings.Contains(err.Error(), "handshake") {
			t.Errorf("Verify: error %v, want one about the handshake", err)
		} else {
			in.Refuse(w, r, err)
		}
	}), delivered)
	if got != http.StatusOK {
		t.Errorf("answer %d, want 200", got)
	}
}

// Handshakes count against the limits of unverified requests and of bodies.
func TestHandshakesAreLimited(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{
			{Name: "x", Provider: provider.X, Secrets: hookonce.StaticSecrets(shakeSecret), AckTimeout: 30 * time.Second},
			asanaSource(nil),
		}
		c.UnverifiedRate = hookonce.Rate{Count: 2, Per: time.Hour}
	})
	get := func(method, target string) (int, http.Header) {
		w := answered(in, httptest.NewRequest(method, target, http.NoBody))
		return w.Code, w.Header()
	}
	if code, header := get(http.MethodPut, "/webhooks/x"); code != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, POST" {
		t.Errorf("PUT: answer %d, Allow %s", code, header.Get("Allow"))
	}
	if code, header := get(http.MethodGet, "/webhooks/asana"); code != http.StatusMethodNotAllowed || header.Get("Allow") != "POST" {
		t.Errorf("GET: answer %d, Allow %s", code, header.Get("Allow"))
	}
	for i, want := range []int{200, 200, 429, 429} {
		if code, header := get(http.MethodGet, "/webhooks/x?crc_token=abc"); code != want || (want == 429) != (header.Get("Retry-After") != "") {
			t.Errorf("request %d: answer %d, want %d", i+1, code, want)
		}
	}
	if got := hand(in, delivered); got != http.StatusTooManyRequests {
		t.Errorf("a secret from that address: answer %d, want 429", got)
	}
	large := httptest.NewRequest(http.MethodPost, "/webhooks/asana", io.LimitReader(zeros{}, defaults.MaxBody+1))
	large.Header.Set("X-Hook-Secret", delivered)
	if w := answered(in, large); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: answer %d, want 413", w.Code)
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
