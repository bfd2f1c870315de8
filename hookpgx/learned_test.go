package hookpgx_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/provider"
)

// TestLearnedOnceOfMany lets many hand secrets over at once, to two processes: one is
// taken, and it is the one that is kept.
func TestLearnedOnceOfMany(t *testing.T) {
	w := open(t, nil)
	var ins []*hookonce.Engine
	for _, store := range []*world{w, w.second(t)} {
		in, err := hookonce.NewEngine(store.Store, &hookonce.Config{
			Sources: []hookonce.Source{{Name: "asana", Provider: provider.Asana, AckTimeout: time.Minute}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(in.Drain)
		ins = append(ins, in)
	}
	const callers = 24
	for round := range 5 {
		if _, err := ins[0].Arm(t.Context(), "asana", time.Minute, false); err != nil {
			t.Fatal(err)
		}
		codes := make([]int, callers)
		secret := func(i int) string { return fmt.Sprintf("%032d", round*callers+i) }
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/webhooks/asana", strings.NewReader("{}"))
				r.Header.Set("X-Hook-Secret", secret(i))
				answer := httptest.NewRecorder()
				ins[i%2].ServeHTTP(answer, r)
				codes[i] = answer.Code
			})
		}
		wg.Wait()
		winner := slices.Index(codes, http.StatusOK)
		if winner < 0 || slices.ContainsFunc(slices.Delete(slices.Clone(codes), winner, winner+1),
			func(code int) bool { return code != http.StatusForbidden }) {
			t.Fatalf("round %d: answered %v, want one 200 and else 403", round, codes)
		}
		state, err := w.LearnedSecrets(t.Context(), []string{"asana"})
		if err != nil || len(state[0].Secrets) != round+1 || state[0].Secrets[round].Secret != secret(winner) || state[0].Armed() {
			t.Errorf("round %d: %d secrets are kept, error %v", round, len(state[0].Secrets), err)
		}
	}
}
