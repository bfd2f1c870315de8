package cli_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// With --as a copy is the request that the destination got. Its secret is that of the settings here, or of
// --secret.
func TestListenAsADestination(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	production, prodURL := newRecorder(t, 200)
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), "sources:\n  gh: {provider: github, secrets: ["+githubSecret+"]}\n"+
		"destinations:\n  app: {url: '"+prodURL+"', secret: "+githubSecret+"}\n  other: {url: '"+prodURL+"'}\n"+
		"routes: [{name: all, to: app, types: [issues]}]\n")
	g := startGateway(t, dir)
	g.deliver(t, "d1")
	g.await(t, "done", 1)
	r, url := newRecorder(t, 200)
	for _, args := range [][]string{{"--as", "app"}, {"--from", g.admin, "--as", "app", "--secret", githubSecret}} {
		l := startFollowing(t, dir, nil, append([]string{"listen", "--since", "1h", url}, args...)...)
		if line := l.next(t); !strings.Contains(line, "d1 issues → 200 (") {
			t.Errorf("the line is %q", line)
		}
		l.stop(t)
	}
	wantBodies, wantHeaders := production.got()
	bodies, headers := r.got()
	if len(wantBodies) != 1 || len(bodies) != 2 {
		t.Fatalf("production got %d requests, the listener %d", len(wantBodies), len(bodies))
	}
	own := func(h http.Header) http.Header {
		h = h.Clone()
		for _, name := range []string{"Webhook-Timestamp", "Webhook-Signature", "Traceparent", "Accept-Encoding"} {
			h.Del(name)
		}
		return h
	}
	for i := range bodies {
		if diff := cmp.Diff(own(wantHeaders[0]), own(headers[i])); diff != "" || bodies[i] != wantBodies[0] {
			t.Errorf("%q, headers (-production +copy):\n%s", bodies[i], diff)
		}
		if !strings.HasPrefix(headers[i].Get("Webhook-Signature"), "v1,") {
			t.Errorf("copy %d is not signed: %v", i, headers[i])
		}
	}
	for want, args := range map[string][]string{
		`--as: "ap" is not in the settings of the gateway; it has app, other`: {"--as", "ap"},
		`destination "app" is signed; add --secret`:                           {"--as", "app", "--from", g.admin},
		"--as and --key exclude each other":                                   {"--as", "app", "--key", "x"},
	} {
		if _, stderr, code := run(t, dir, append([]string{"listen", url}, args...)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%v: the error is %q, want %q", args, stderr, want)
		}
	}
}

// The first copy that is answered 401 makes listen say that there is --as.
func TestListenSaysAs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startSources(t, dir)
	g.deliver(t, "d1")
	_, url := newRecorder(t, 401)
	l := startFollowing(t, dir, nil, "listen", "--since", "1h", url)
	l.note(t, "--as NAME sends them")
	l.next(t)
	l.stop(t)
}
