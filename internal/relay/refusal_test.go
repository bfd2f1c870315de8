package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A refused message rests longer each time. The memory is bounded, and forgets messages that are not refused any more.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var r refusals
	now := time.Now()
	var rests []string
	for range 8 {
		rest := r.add("bad", now)
		rests = append(rests, rest.String())
		if diff := cmp.Diff([]string{"bad"}, r.resting(now.Add(rest-1))); diff != "" {
			t.Errorf("rests (-want +got):\n%s", diff)
		}
		if now = now.Add(rest); r.resting(now) != nil {
			t.Errorf("%v rest after %s", r.resting(now), rest)
		}
	}
	if diff := cmp.Diff([]string{"10s", "20s", "40s", "1m20s", "2m40s", "5m20s", "10m0s", "10m0s"}, rests); diff != "" {
		t.Errorf("rests (-want +got):\n%s", diff)
	}
	for i := range maxRefusals + 1 {
		r.add(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if _, ok := r.messages["0"]; ok || len(r.messages) != maxRefusals {
		t.Errorf("%d messages are remembered, the one that is due first among them: %v", len(r.messages), ok)
	}
	if rest := r.add("later", now.Add(time.Hour)); rest != firstRefusalRest || len(r.messages) != 1 {
		t.Errorf("an hour later a message rests for %s beside %d others", rest, len(r.messages)-1)
	}
}
