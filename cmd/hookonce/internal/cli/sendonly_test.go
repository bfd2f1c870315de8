package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A redirect is an answer like any other: nothing is sent to where it points.
func TestSendFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere, url := newRecorder(t, http.StatusOK)
	server := httptest.NewServer(http.RedirectHandler(url, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	stdout, _ := runHere(t, 1, "send", server.URL, "--provider", "stripe", "--secret", "whsec_test_secret")
	if !strings.Contains(stdout, "307") {
		t.Errorf("printed %s", stdout)
	}
	if n := len(elsewhere.bodies); n != 0 {
		t.Errorf("%d requests went where the redirect points", n)
	}
}

// Without --shuffle the deliveries of an event follow one another; with it they do not.
func TestSendShuffles(t *testing.T) {
	t.Parallel()
	const events = 50
	for shuffle, want := range map[string]bool{"": true, "--shuffle": false} {
		r, url := newRecorder(t, http.StatusOK)
		args := []string{"send", url, "--provider", "github", "--secret", githubSecret, "--times", "50", "--duplicate", "1", "--concurrency", "1"}
		if shuffle != "" {
			args = append(args, shuffle)
		}
		runHere(t, 0, args...)
		together := 0
		for i := 0; i+1 < len(r.header); i += 2 {
			if r.header[i].Get("X-GitHub-Delivery") == r.header[i+1].Get("X-GitHub-Delivery") {
				together++
			}
		}
		if len(r.header) != 2*events || (together == events) != want {
			t.Errorf("%q: %d deliveries arrived, and of %d of %d events both at once", shuffle, len(r.header), together, events)
		}
	}
}
