package refusals

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A refused row rests longer each time. The memory is bounded, and forgets rows that are not refused any more.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var r Rows[string]
	now := time.Now()
	var rests []string
	for range 8 {
		rest := r.Add("bad", now)
		rests = append(rests, rest.String())
		if diff := cmp.Diff([]string{"bad"}, r.Resting(now.Add(rest-1))); diff != "" {
			t.Errorf("rests (-want +got):\n%s", diff)
		}
		if now = now.Add(rest); r.Resting(now) != nil {
			t.Errorf("%v rest after %s", r.Resting(now), rest)
		}
	}
	if diff := cmp.Diff([]string{"10s", "20s", "40s", "1m20s", "2m40s", "5m20s", "10m0s", "10m0s"}, rests); diff != "" {
		t.Errorf("rests (-want +got):\n%s", diff)
	}
	for i := range most + 1 {
		r.Add(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if _, ok := r.rows["0"]; ok || len(r.rows) != most {
		t.Errorf("%d rows are remembered, the one that is due first among them: %v", len(r.rows), ok)
	}
	if rest := r.Add("later", now.Add(time.Hour)); rest != firstRest || len(r.rows) != 1 {
		t.Errorf("an hour later a row rests for %s beside %d others", rest, len(r.rows)-1)
	}
}
