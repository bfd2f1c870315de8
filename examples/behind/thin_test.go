package behind_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/examplestest"
	"github.com/hookonce/hookonce/provider"
)

// The application for thin events stores the fetched state once. While the API fails, or answers with too much, it answers 503,
// so that hookonce sends the event again; it asks no other host.
func TestThin(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another host was asked") }))
	t.Cleanup(elsewhere.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		switch {
		case asked.Add(1) == 1 || h.Get("Authorization") != "Bearer sk" || h.Get("Stripe-Version") != "v2" || h.Get("Stripe-Context") != "acct_0":
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case r.URL.Path == "/large":
			_, _ = w.Write(make([]byte, 16<<20+1))
		case r.URL.Path == "/v2/core/accounts/acct_1":
			fmt.Fprint(w, `{"id":"acct_1","state":"now"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(api.Close)
	binary := filepath.Join(t.TempDir(), "thin")
	build := exec.Command("go", "build", "-o", binary, "./thin")
	build.Dir = "go"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address := dbtest.FreeAddress(t)
	databaseURL, _, db := examplestest.Postgres(t)
	examplestest.Exec(t, db, schema)
	p := examplestest.Start(t, []string{
		"PORT=" + address[strings.LastIndex(address, ":")+1:], "DATABASE_URL=" + databaseURL, "APP_SECRET=" + secret,
		"API_URL=" + api.URL, "API_KEY=sk", "API_VERSION=v2",
	}, binary)
	t.Cleanup(func() { p.Kill(t) })

	send := func(id, object string) int {
		r := hooktest.NewRequest(t, hookonce.Source{Name: "app", Provider: provider.StandardWebhooks, Secrets: hookonce.StaticSecrets(secret)},
			`{"id":"evt_1","object":"v2.core.event","context":"acct_0","related_object":`+object+`}`,
			hooktest.WithEventID(id), hooktest.WithServer(p.URL()))
		r.URL.Path = "/hooks"
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode
	}
	at := func(path string) string { return `{"id":"acct_1","url":"` + path + `"}` }
	const account = "/v2/core/accounts/acct_1"
	got := []int{
		send("msg_1", at(account)), send("msg_1", at(account)), send("msg_1", at(account)), send("msg_2", at(api.URL+account)),
		send("msg_3", at("/moved")), send("msg_4", at("/large")), send("msg_5", "null"), send("msg_6", at("/deleted")),
	}
	if diff := cmp.Diff([]int{503, 200, 200, 503, 503, 503, 200, 200}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	work := examplestest.Counts(t, db, "SELECT webhook_id || convert_from(body, 'UTF8'), count(*) FROM work GROUP BY 1")
	if diff := cmp.Diff(map[string]int{`msg_1{"id":"acct_1","state":"now"}`: 1, "msg_6null": 1}, work); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
}
