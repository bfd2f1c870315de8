package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answer is the gateway's answer to a delivery.
type answer struct {
	status int
	header http.Header
	text   string

	// Set only for an accepted delivery.
	Status     string `json:"status"`
	EventID    string `json:"event_id"`
	Reopened   bool   `json:"reopened"`
	Events     int    `json:"events"`
	Duplicates int    `json:"duplicates"`
}

// short returns the answer for comparison: "200 ok", "200 duplicate", "401".
func (a *answer) short() string {
	if a.status == http.StatusOK && a.Status != "" {
		return "200 " + a.Status
	}
	return fmt.Sprint(a.status)
}

// deliver makes a delivery and returns its answer. Any goroutine may call it: a failure is an error
// of the test, and then answer.status is 0.
func (g *gateway) deliver(t testing.TB, d *delivery) *answer {
	t.Helper()
	a, err := g.tryDeliver(d)
	if err != nil {
		t.Errorf("delivery to %s: %v", d.source, err)
		return &answer{}
	}
	return a
}

func (g *gateway) tryDeliver(d *delivery) (*answer, error) {
	return g.send(http.MethodPost, "/webhooks/"+d.source, d)
}

func (g *gateway) send(method, path string, d *delivery) (*answer, error) {
	req, err := http.NewRequest(method, "http://"+g.public+path, strings.NewReader(d.body))
	if err != nil {
		return nil, err
	}
	req.Header = d.header.Clone()
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return readAnswer(method, resp, body)
}

// readAnswer reads an answer and makes the checks that every answer must pass.
func readAnswer(method string, resp *http.Response, body []byte) (*answer, error) {
	a := &answer{status: resp.StatusCode, header: resp.Header, text: string(body)}
	if found := leaked(a.text + fmt.Sprint(resp.Header)); len(found) > 0 {
		return nil, fmt.Errorf("%d: the answer holds secrets %q: %s", a.status, found, a.text)
	}
	switch {
	case a.status >= 400 && method != http.MethodHead:
		return a, checkProblem(a)
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"):
		return a, json.Unmarshal(body, a)
	}
	return a, nil
}

// inside are texts that only internal errors contain, so no answer may.
var inside = []string{
	"sql", "SQL", "pgx", "dial tcp", "i/o timeout", "connection re", "read tcp", "write tcp", "hookonce.event",
	"constraint", "goroutine", ".go:", "127.0.0.1", "context deadline",
}

// checkProblem checks that a refusal follows RFC 9457 and reveals nothing internal.
func checkProblem(a *answer) error {
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		return fmt.Errorf("%d: Content-Type %q, want a problem: %s", a.status, got, a.text)
	}
	var p struct {
		Type, Title, Detail, Instance string
		Status                        int
	}
	if err := json.Unmarshal([]byte(a.text), &p); err != nil {
		return fmt.Errorf("%d: the problem is not JSON: %w: %s", a.status, err, a.text)
	}
	if p.Type == "" || p.Title == "" || p.Detail == "" || p.Instance == "" || p.Status != a.status {
		return fmt.Errorf("%d: type, title, status, detail and instance are required: %s", a.status, a.text)
	}
	for _, text := range inside {
		if strings.Contains(a.text, text) {
			return fmt.Errorf("%d: the problem reveals the internal text %q: %s", a.status, text, a.text)
		}
	}
	if needs := a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests; needs && a.header.Get("Retry-After") == "" {
		return fmt.Errorf("%d without Retry-After", a.status)
	}
	return nil
}

// expect makes a delivery and checks its short answer.
func (g *gateway) expect(t testing.TB, d *delivery, want string) *answer {
	t.Helper()
	a := g.deliver(t, d)
	if a.status == http.StatusServiceUnavailable && want != "503" { // as a slow machine may answer
		if a = g.accept(t, d); a.short() == "200 duplicate" && want == "200 ok" {
			return a // the first delivery was claimed nevertheless
		}
	}
	if a.short() != want {
		t.Errorf("delivery to %s: %s, want %s: %s", d.source, a.short(), want, a.text)
	}
	return a
}

// atOnce makes n deliveries at the same moment and counts the short answers.
func atOnce(n int, one func(i int) *answer) map[string]int {
	var (
		ready, done sync.WaitGroup
		gate        = make(chan struct{})
		mu          sync.Mutex
		counts      = make(map[string]int)
	)
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-gate
			a := one(i)
			mu.Lock()
			counts[a.short()]++
			mu.Unlock()
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
	return counts
}

// checkAnswers compares counts of short answers.
func checkAnswers(t testing.TB, when string, want, got map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers %s (-want +got):\n%s", when, diff)
	}
}

// event is an event as the admin API lists it.
type event struct {
	Source     string `json:"source"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
	State      string `json:"state"`
	Note       string `json:"note"`
	Generation int    `json:"generation"`
	Duplicates string `json:"duplicates"` // a number, as text
	LastError  string `json:"last_error"`
}

// eventDetail is an event as the admin API shows it.
type eventDetail struct {
	event
	Body       *string             `json:"body"`
	BodyBase64 []byte              `json:"body_base64"`
	Headers    map[string][]string `json:"headers"`
	Deliveries struct {
		Count       string `json:"count"`
		OtherBodies string `json:"other_bodies"`
		RepeatOf    string `json:"repeat_of"`
	} `json:"deliveries"`
	Messages []struct {
		ID          string    `json:"id"`
		Route       string    `json:"route"`
		Destination string    `json:"destination"`
		State       string    `json:"state"`
		Generation  int       `json:"generation"`
		Attempts    int       `json:"attempts"`
		DueAt       time.Time `json:"due_at"` // zero unless pending
	} `json:"messages"`
	Attempts []attempt `json:"attempts"`
}

// attempt is one attempt to send, as the admin API shows it.
type attempt struct {
	Generation int       `json:"generation"`
	Number     int       `json:"number"`
	Outcome    string    `json:"outcome"`
	StatusCode *int      `json:"status_code"`
	Error      string    `json:"error"`
	At         time.Time `json:"at"`
}

// status returns the status of the answer, 0 if there was none.
func (a *attempt) status() int {
	if a.StatusCode == nil {
		return 0
	}
	return *a.StatusCode
}

// api asks the admin API and returns the status; v takes the JSON of a 200.
func (g *gateway) api(t testing.TB, path string, v any) int {
	t.Helper()
	resp, err := g.client.Get("http://" + g.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if found := leaked(string(body)); len(found) > 0 {
		t.Errorf("GET %s answered secrets %q: %s", path, found, body)
	}
	if resp.StatusCode == http.StatusOK && v != nil {
		if err := json.Unmarshal(body, v); err != nil {
			t.Fatalf("GET %s: %v: %s", path, err, body)
		}
	}
	return resp.StatusCode
}

// events lists all events that the filter, a query string, selects.
func (g *gateway) events(t testing.TB, filter string) []event {
	t.Helper()
	var all []event
	for cursor := ""; ; {
		page, next := g.page(t, filter+"&limit=200&cursor="+url.QueryEscape(cursor))
		all = append(all, page...)
		if cursor = next; cursor == "" {
			return all
		}
	}
}

// page lists a page of events, and returns the cursor of the next one.
func (g *gateway) page(t testing.TB, filter string) (events []event, next string) {
	t.Helper()
	var page struct {
		Events []event `json:"events"`
		Next   string  `json:"next"`
	}
	path := "/api/v1/events?" + filter
	if status := g.api(t, path, &page); status != http.StatusOK {
		t.Fatalf("GET %s: %d", path, status)
	}
	return page.Events, page.Next
}

// event shows one event, nil if there is none.
func (g *gateway) event(t testing.TB, source, id string) *eventDetail {
	t.Helper()
	path := "/api/v1/events/" + url.PathEscape(source) + "/" + url.PathEscape(id)
	var detail eventDetail
	switch status := g.api(t, path, &detail); status {
	case http.StatusOK:
		return &detail
	case http.StatusNotFound:
		return nil
	default:
		t.Fatalf("GET %s: %d", path, status)
		return nil
	}
}

// waitState waits until the event is in state, and shows it.
func (g *gateway) waitState(t testing.TB, source, id, state string) *eventDetail {
	t.Helper()
	var detail *eventDetail
	g.Eventually(t, "event "+id+" of "+source+" is "+state, func() bool {
		detail = g.event(t, source, id)
		return detail != nil && detail.State == state
	})
	return detail
}

// waitAllDone waits until every event of the source is done, and lists them.
func (g *gateway) waitAllDone(t testing.TB, source string) []event {
	t.Helper()
	var all []event
	g.Eventually(t, "all events of "+source+" are done", func() bool {
		all = g.events(t, "source="+source)
		for i := range all {
			if all[i].State != "done" {
				return false
			}
		}
		return true
	})
	return all
}
