package adminclient_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
)

// TestPagesWithoutEnd asks a gateway, or something that looks like one, whose cursors go round in circles.
func TestPagesWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*adminclient.Client) error{
		"retry of the quarantine": func(c *adminclient.Client) error {
			_, err := c.RetryQuarantine(t.Context(), "", func(*adminclient.QuarantineWork) {})
			return err
		},
		"plan of the quarantine": func(c *adminclient.Client) error {
			_, err := c.PlanQuarantine(t.Context(), "")
			return err
		},
		"plan of dead letters": func(c *adminclient.Client) error {
			_, err := c.PlanDeadLetters(t.Context(), url.Values{})
			return err
		},
	} {
		for _, period := range []int{1, 2, 7} {
			t.Run(fmt.Sprint(name, period), func(t *testing.T) {
				t.Parallel()
				asked := 0
				gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					if asked++; asked > 100 {
						w.WriteHeader(http.StatusTeapot)
						return
					}
					fmt.Fprintf(w, `{"requests":[],"dead_letters":[],"events":[],"next":"c%d"}`, asked%period)
				}))
				t.Cleanup(gateway.Close)
				client, err := adminclient.New(gateway.URL, "", nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := call(client); err == nil || !strings.Contains(err.Error(), "again and again") {
					t.Errorf("after %d requests the error is %v", asked, err)
				}
			})
		}
	}
}
