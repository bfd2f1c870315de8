package hookonce_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

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

// hand hands a secret over, and returns what is answered.
func hand(in http.Handler, secret string) int {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/asana", strings.NewReader("{}"))
	r.Header.Set("X-Hook-Secret", secret)
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	if w.Code == http.StatusOK && w.Header().Get("X-Hook-Secret") != secret {
		return -1
	}
	return w.Code
}

// signedAsana is what is answered to a delivery that is signed with secret.
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

// TestLearnedSecretIsInForce follows one secret through two processes and a restart.
func TestLearnedSecretIsInForce(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	a, b := asanaEngine(t, store, nil), asanaEngine(t, store, nil)
	for _, in := range []*hookonce.Engine{a, b} {
		if got := signedAsana(t, in, delivered); got != http.StatusServiceUnavailable {
			t.Fatalf("without any secret: %d, the sender must come again", got)
		}
	}
	if got := hand(a, delivered); got != http.StatusForbidden {
		t.Fatalf("not armed: %d", got)
	}
	arm(t, b, time.Minute)
	if got := hand(a, delivered); got != http.StatusOK {
		t.Fatalf("armed: %d", got)
	}
	if got := signedAsana(t, a, delivered); got != http.StatusOK {
		t.Errorf("at once: %d", got)
	}
	if err := hookonce.RefreshLearned(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := signedAsana(t, b, delivered); got != http.StatusOK {
		t.Errorf("in the other process: %d", got)
	}
	// A sender whose answer was lost says the same again.
	for _, in := range []*hookonce.Engine{a, b, asanaEngine(t, store, nil)} {
		if got := hand(in, delivered); got != http.StatusOK {
			t.Errorf("the same again: %d", got)
		}
		if got := hand(in, "f"+delivered[1:]); got != http.StatusForbidden {
			t.Errorf("another one: %d", got)
		}
		if got := signedAsana(t, in, "f"+delivered[1:]); got != http.StatusUnauthorized {
			t.Errorf("signed with another one: %d", got)
		}
	}
}

// TestLearnedBesidesSettings holds that the secrets of the settings stay, also over a
// reload.
func TestLearnedBesidesSettings(t *testing.T) {
	t.Parallel()
	const own = "the secret of the settings"
	in := asanaEngine(t, openStore(t), func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{asanaSource(hookonce.StaticSecrets(own))}
	})
	arm(t, in, time.Minute)
	if got := hand(in, delivered); got != http.StatusOK {
		t.Fatalf("armed: %d", got)
	}
	check := func(when string, want map[string]int) {
		t.Helper()
		for secret, code := range want {
			if got := signedAsana(t, in, secret); got != code {
				t.Errorf("%s, signed with %q: %d, want %d", when, secret, got, code)
			}
		}
	}
	check("learned", map[string]int{own: 200, delivered: 200, "none of the two....": 401})
	if err := in.Reload(&hookonce.Config{Sources: []hookonce.Source{asanaSource(nil)}}); err != nil {
		t.Fatal(err)
	}
	check("reloaded without", map[string]int{own: 401, delivered: 200})
	if _, err := in.Arm(t.Context(), "asana", time.Minute, true); err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("e", 32)
	if got := hand(in, other); got != http.StatusOK {
		t.Fatalf("armed to replace: %d", got)
	}
	check("replaced", map[string]int{delivered: 401, other: 200})
}

// TestLearnedOnceOfMany lets many hand secrets over at once: one is taken.
func TestLearnedOnceOfMany(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	ins := []*hookonce.Engine{asanaEngine(t, store, nil), asanaEngine(t, store, nil)}
	arm(t, ins[0], time.Minute)
	const callers = 32
	codes := make([]int, callers)
	secret := func(i int) string { return fmt.Sprintf("%032d", i) }
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			<-start
			codes[i] = hand(ins[i%2], secret(i))
		})
	}
	close(start)
	wg.Wait()
	winner := -1
	for i, code := range codes {
		switch {
		case code == http.StatusOK && winner < 0:
			winner = i
		case code != http.StatusForbidden:
			t.Errorf("caller %d was answered %d", i, code)
		}
	}
	if winner < 0 {
		t.Fatalf("nobody won: %v", codes)
	}
	for _, in := range ins {
		if err := hookonce.RefreshLearned(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		for i := range callers {
			want := http.StatusUnauthorized
			if i == winner {
				want = http.StatusOK
			}
			if got := signedAsana(t, in, secret(i)); got != want {
				t.Errorf("signed with the secret of caller %d: %d, want %d", i, got, want)
			}
		}
	}
}

// TestArmingExpires arms by the store's clock, and comes too late.
func TestArmingExpires(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	in := asanaEngine(t, store, nil)
	armAt := func(now time.Time) {
		t.Helper()
		if _, err := store.Arm(t.Context(), &driver.ArmParams{Source: "asana", For: time.Hour, Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	armAt(time.Now().Add(-time.Hour))
	if got := hand(in, delivered); got != http.StatusForbidden {
		t.Errorf("an hour later: %d", got)
	}
	armAt(time.Now())
	if _, err := in.Arm(t.Context(), "asana", 0, false); err != nil {
		t.Fatal(err)
	}
	if got := hand(in, delivered); got != http.StatusForbidden {
		t.Errorf("disarmed: %d", got)
	}
	armAt(time.Now())
	if got := hand(in, delivered); got != http.StatusOK {
		t.Errorf("in time: %d", got)
	}
}

// TestSecretIsNotShown looks for the secret where everything else of a source is.
func TestSecretIsNotShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store := openStore(t)
	in := asanaEngine(t, store, func(c *hookonce.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
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
	shown, err := json.Marshal([]any{in.Sources(), state, learned(t, store)})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(shown) + fmt.Sprintf("%v %+v", learned(t, store), in.Sources())
	if strings.Contains(all, delivered) || !strings.Contains(all, "hookonce sources arm asana") {
		t.Errorf("shown:\n%s", all)
	}
	if _, err := in.Arm(t.Context(), "asana", hookonce.MaxArmed+1, false); err == nil {
		t.Error("it can be armed for ever")
	}
}

// learned is what the source asana has learned.
func learned(t *testing.T, store driver.Store) []driver.SourceSecrets {
	t.Helper()
	all, err := store.LearnedSecrets(t.Context(), []string{"asana"})
	if err != nil || len(all[0].Secrets) != 1 {
		t.Fatalf("%d secrets are learned, error %v", len(all[0].Secrets), err)
	}
	return all
}

// TestRunFindsWhatOthersLearned leaves it to the upkeep to look.
func TestRunFindsWhatOthersLearned(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	a, b := asanaEngine(t, store, nil), asanaEngine(t, store, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	if got := signedAsana(t, b, delivered); got != http.StatusServiceUnavailable {
		t.Fatalf("before: %d", got)
	}
	arm(t, a, time.Minute)
	if got := hand(a, delivered); got != http.StatusOK {
		t.Fatalf("armed: %d", got)
	}
	waitFor(t, func() bool { return signedAsana(t, b, delivered) == http.StatusOK })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// countingLearner counts what would write to the database.
type countingLearner struct {
	driver.Store
	calls atomic.Int64
}

func (s *countingLearner) LearnSecret(ctx context.Context, p *driver.LearnParams) (bool, error) {
	s.calls.Add(1)
	return s.Store.LearnSecret(ctx, p)
}

// TestHandOverWritesOnlyWhereArmed holds that what anybody can send is no load on the
// writer of the database.
func TestHandOverWritesOnlyWhereArmed(t *testing.T) {
	t.Parallel()
	store := &countingLearner{Store: openStore(t)}
	in := asanaEngine(t, store, nil)
	want := func(when, secret string, code int, calls int64) {
		t.Helper()
		if got := hand(in, secret); got != code || store.calls.Load() != calls {
			t.Errorf("%s: answered %d after %d writes, want %d after %d", when, got, store.calls.Load(), code, calls)
		}
	}
	want("not armed", delivered, http.StatusForbidden, 0)
	arm(t, in, time.Minute)
	want("armed", delivered, http.StatusOK, 1)
	want("the same again", delivered, http.StatusOK, 1)
	want("another one", "f"+delivered[1:], http.StatusForbidden, 1)
}

// TestSecretThatCannotBeUsed holds that such a one is not taken, and does not disarm.
func TestSecretThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	v, err := verify.Compile(verify.Scheme{Family: verify.FamilyHMAC, Header: "X-Hook-Signature", SecretEncoding: verify.SecretHex})
	if err != nil {
		t.Fatal(err)
	}
	store := &countingLearner{Store: openStore(t)}
	in := asanaEngine(t, store, nil)
	hookonce.SetVerifier(in, "asana", v)
	arm(t, in, time.Minute)
	if got := hand(in, "not-hexadecimal-digits"); got != http.StatusBadRequest || store.calls.Load() != 0 {
		t.Errorf("answered %d after %d writes", got, store.calls.Load())
	}
	if got := hand(in, delivered); got != http.StatusOK {
		t.Errorf("one that can be used: %d", got)
	}
}

// TestNewestSecretComesFirst holds the order in which secrets are tried, and of which
// the first answers handshakes.
func TestNewestSecretComesFirst(t *testing.T) {
	t.Parallel()
	const own = "the secret of the settings"
	store := openStore(t)
	in := asanaEngine(t, store, func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{asanaSource(hookonce.StaticSecrets(own))}
	})
	want := []string{own}
	for _, first := range []string{"1", "2", "3"} {
		arm(t, in, time.Minute)
		secret := first + delivered[1:]
		if got := hand(in, secret); got != http.StatusOK {
			t.Fatalf("armed: %d", got)
		}
		want = slices.Insert(want, 1, secret)
	}
	for when, in := range map[string]*hookonce.Engine{"learned": in, "read": asanaEngine(t, store, func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{asanaSource(hookonce.StaticSecrets(own))}
	})} {
		got, err := hookonce.SecretsInForce(t.Context(), in, "asana")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", when, err, diff)
		}
	}
}

// slowLearned reads what is learned, and then waits.
type slowLearned struct {
	driver.Store
	read, release chan struct{} // of the next read; nil for none
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

// TestLateReadForgetsNothing lets the upkeep read before a secret is learned, and tell
// of it afterwards.
func TestLateReadForgetsNothing(t *testing.T) {
	t.Parallel()
	store := &slowLearned{Store: openStore(t)}
	in := asanaEngine(t, store, nil)
	arm(t, in, time.Minute)
	read, refreshed := make(chan struct{}), make(chan error)
	store.read, store.release = read, make(chan struct{})
	go func() { refreshed <- hookonce.RefreshLearned(t.Context(), in) }()
	<-read
	if got := hand(in, delivered); got != http.StatusOK {
		t.Fatalf("armed: %d", got)
	}
	close(store.release)
	if err := <-refreshed; err != nil {
		t.Fatal(err)
	}
	if got := signedAsana(t, in, delivered); got != http.StatusOK {
		t.Errorf("the secret is forgotten: %d", got)
	}
}

// TestVerifyAnswersHandshakes holds that a router of one's own answers them by Refuse.
func TestVerifyAnswersHandshakes(t *testing.T) {
	t.Parallel()
	in := asanaEngine(t, openStore(t), nil)
	arm(t, in, time.Minute)
	got := hand(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := in.Verify(w, r); err == nil || !strings.Contains(err.Error(), "handshake") {
			t.Errorf("Verify: error %v", err)
		} else {
			in.Refuse(w, r, err)
		}
	}), delivered)
	if got != http.StatusOK {
		t.Errorf("answered %d", got)
	}
}

// TestHandshakesAreBounded holds that unverified handshakes of one address are limited
// as other unverified requests are.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	in := newEngine(t, openStore(t), func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{
			{Name: "x", Provider: provider.X, Secrets: hookonce.StaticSecrets(shakeSecret), AckTimeout: 30 * time.Second},
			asanaSource(nil),
		}
		c.UnverifiedRate = hookonce.Rate{Count: 2, Per: time.Hour}
	})
	get := func(method, target string) (int, http.Header) {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, httptest.NewRequest(method, target, http.NoBody))
		return w.Code, w.Header()
	}
	if code, header := get(http.MethodPut, "/webhooks/x"); code != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, POST" {
		t.Errorf("PUT: %d, Allow %s", code, header.Get("Allow"))
	}
	if code, header := get(http.MethodGet, "/webhooks/asana"); code != http.StatusMethodNotAllowed || header.Get("Allow") != "POST" {
		t.Errorf("GET: %d, Allow %s", code, header.Get("Allow"))
	}
	for i, want := range []int{200, 200, 429, 429} {
		if code, header := get(http.MethodGet, "/webhooks/x?crc_token=abc"); code != want || (want == 429) != (header.Get("Retry-After") != "") {
			t.Errorf("request %d: %d, want %d", i, code, want)
		}
	}
	if got := hand(in, delivered); got != http.StatusTooManyRequests {
		t.Errorf("a secret from that address: %d", got)
	}
	large := httptest.NewRequest(http.MethodPost, "/webhooks/asana", io.LimitReader(zeros{}, hookonce.DefaultMaxBody+1))
	large.Header.Set("X-Hook-Secret", delivered)
	w := httptest.NewRecorder()
	if in.ServeHTTP(w, large); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", w.Code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
