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

// The application for thin events stores the fetched state once. While the API fails it answers 503, so that
// hookonce sends the event again; it asks no other host.
func TestThin(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 || r.URL.Path != "/v2/core/accounts/acct_1" || r.Header.Get("Authorization") != "Bearer sk" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `{"id":"acct_1","state":"now"}`)
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
		"API_URL=" + api.URL, "API_KEY=sk",
	}, binary)
	t.Cleanup(func() { p.Kill(t) })

	send := func(id, object string) int {
		r := hooktest.NewRequest(t, hookonce.Source{Name: "app", Provider: provider.StandardWebhooks, Secrets: hookonce.StaticSecrets(secret)},
			`{"id":"evt_1","object":"v2.core.event","related_object":{"id":"acct_1","url":"`+object+`"}}`,
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
	const account = "/v2/core/accounts/acct_1"
	got := []int{send("msg_1", account), send("msg_1", account), send("msg_1", account), send("msg_2", api.URL+account)}
	if diff := cmp.Diff([]int{503, 200, 200, 503}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	work := examplestest.Counts(t, db, "SELECT webhook_id || convert_from(body, 'UTF8'), count(*) FROM work GROUP BY 1")
	if diff := cmp.Diff(map[string]int{`msg_1{"id":"acct_1","state":"now"}`: 1}, work); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
}
