package proof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const (
	// seedVariable names the environment variable that repeats the random choices of a trial. The
	// timing of processes is not repeated.
	seedVariable = "HOOKONCE_TEST_SEED"
	// Events of a trial.
	fewEvents  = 400
	longEvents = 100_000
)

// seedOf returns the seed in seedVariable, or a random one.
func seedOf(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedVariable, err)
	}
	return n
}

// event is an event to deliver.
type event struct {
	order
	body, signature string
	twin            bool // is delivered twice at the same moment
	again           bool // after this event, an earlier one is delivered again

	// Guarded by the trial's mutex.
	acked   bool
	claimed int // answers "ok"
}

func newEvent(o order) *event {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // it holds two texts and a bool
	}
	mac := hmac.New(sha256.New, []byte(sourceSecret))
	mac.Write(body)
	return &event{order: o, body: string(body), signature: hex.EncodeToString(mac.Sum(nil))}
}

// planEvents returns n events. In a thousand, 50 fail twice, 10 panic, 10 fail for good and one
// ends its process; every tenth enqueues a message; and there are 300 second deliveries, half of
// them at the same moment as the first. The choice of events is random.
func planEvents(r *rand.Rand, n int) []*event {
	var does []string
	add := func(what string, count int) {
		for range count {
			does = append(does, what)
		}
	}
	add(failTwice, n*50/1000)
	add(panicAlways, n*10/1000)
	add(failForGood, n*10/1000)
	killers := max(n/1000, 2)
	add(killProcess, killers/2)
	add(leaveProcess, killers-killers/2)
	add(succeed, n-len(does))

	events := make([]*event, n)
	for i, place := range r.Perm(n) {
		events[place] = newEvent(order{ID: fmt.Sprintf("evt-%06d", i), Does: does[i], Message: i%10 == 0})
	}
	for i, place := range r.Perm(n) {
		events[place].twin = i < n*150/1000
	}
	for i, place := range r.Perm(n) {
		events[place].again = i < n*150/1000
	}
	return events
}

// mayDie reports whether an event ends the process of its handler.
func (o *order) mayDie() bool { return o.Does == killProcess || o.Does == leaveProcess }

// succeeds reports whether a handler of this event succeeds in the end.
func (o *order) succeeds() bool { return o.Does == succeed || o.Does == failTwice }
