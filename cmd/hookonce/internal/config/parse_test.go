package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnchorsAndMerges(t *testing.T) {
	t.Parallel()
	s := mustLoad(t, LoadOptions{Dir: dirWith(t, `
destinations:
  a: &a
    url: &url http://a/
    timeout: 1s
    retry: &retry {attempts: 3}
  b:
    <<: *a
    timeout: 2s
  c:
    <<: [{concurrency: 7}, *a]
    url: *url
    retry: *retry
`), Environ: environ()})
	var got []string
	for _, d := range s.Engine.Destinations {
		got = append(got, fmt.Sprint(d.Name, " ", d.URL, " ", d.Timeout, " ", d.Concurrency, " ", d.Retry.Attempts))
	}
	want := []string{"a http://a/ 1s 0 3", "b http://a/ 2s 0 3", "c http://a/ 1s 7 3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTooManyTokens(t *testing.T) {
	t.Parallel()
	_, err := Load(LoadOptions{Dir: dirWith(t, "routes: ["+strings.Repeat("a,", maxTokens)+"]"), Environ: environ()})
	if want := "hookonce.yaml: the file has more than 60000 tokens"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
