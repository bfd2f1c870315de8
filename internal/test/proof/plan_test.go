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
	// seedVariable names the environment variable that repeats the random choices of
	// a trial. When which process comes to what is not repeated.
	seedVariable = "HOOKONCE_TEST_SEED"
	// soakVariable names the one that sets the number of events.
	soakVariable  = "HOOKONCE_SOAK"
	defaultEvents = 10_000
)

// environment returns the number that an environment variable holds, or else
// the fallback.
func environment(t testing.TB, name string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// event is an event that is going to be delivered.
type event struct {
	order
	body, signature string
	twin            bool // two copies of it are delivered at the same moment
	again           bool // after it, an earlier one is delivered again

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

// planEvents returns n events. In a thousand, 50 fail twice, 10 panic, 10 fail for
// good and one ends its process; every tenth has a message to send; and there are
// 300 second deliveries, half of them at the same moment as the first. Which events
// these are is random.
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

// mayDie reports whether an event ends its process.
func (o *order) mayDie() bool { return o.Does == killProcess || o.Does == leaveProcess }

// succeeds reports whether a handler of this event succeeds in the end.
func (o *order) succeeds() bool { return o.Does == succeed || o.Does == failTwice }
