package verify_test

import (
	"bytes"
	"testing"
)

// TestVerifyAllocates bounds the allocations of one verification. It is not parallel: allocations
// of other tests would count.
func TestVerifyAllocates(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates too")
	}
	const most = 3
	body := string(bytes.Repeat([]byte("0123456789abcdef"), 128))
	for _, s := range shapes() {
		v := mustCompile(t, s.scheme)
		keys := mustKeys(t, v, s.secret)
		req := signedRequest(t, v, keys[0], body)
		n := testing.AllocsPerRun(100, func() {
			if err := v.Verify(req, keys); err != nil {
				t.Fatal(err)
			}
		})
		if n > most {
			t.Errorf("%s: %v allocations, at most %d are allowed", s.name, n, most)
		}
		t.Logf("%s: %v", s.name, n)
	}
}
