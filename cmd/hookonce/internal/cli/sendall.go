package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// maxAnswer is how much of an answer is shown.
const maxAnswer = 200

// sent is what became of one request.
type sent struct {
	event  int    // which one it was, from 0
	status int    // 0 if there was no answer
	answer string // of the body, what is shown
	err    error
	took   time.Duration
}

// sendReport is the shape of --json.
type sendReport struct {
	Requests   int           `json:"requests"`
	Events     int           `json:"events"` // different ones
	Expected   string        `json:"expected"`
	Unexpected int           `json:"unexpected"` // answers of another kind, and requests without one
	Answers    []sendAnswers `json:"answers"`
	Latency    sendLatency   `json:"latency_ms"`     // of those that were answered
	FirstID    string        `json:"first_event_id"` // "" where none can be read

	few []sent // each of them, where they are few enough to be shown
}

// maxFew is how many answers are shown one by one.
const maxFew = 10

func few(s *sending, results []sent) []sent {
	if len(results) > maxFew {
		return nil
	}
	return results
}

// sendAnswers are the answers of one status; 0 stands for none.
type sendAnswers struct {
	Status  int    `json:"status"`
	Count   int    `json:"count"`
	Example string `json:"example"` // the beginning of the first one's body, or why there was none
}

type sendLatency struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// sendAll sends everything. It returns what became of the requests that were
// begun; an error only where one could not be made.
func (p *program) sendAll(ctx context.Context, s *sending) ([]sent, error) {
	order := s.order()
	results := make([]sent, len(order))
	client := newSendClient(s.flags)
	defer client.CloseIdleConnections()
	progress := p.newProgress()
	defer progress.end()
	var next, done atomic.Int64
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range min(s.flags.concurrency, len(order)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(order) {
					return
				}
				req, err := s.request(order[n])
				if err != nil {
					once.Do(func() { failed = err })
					cancel()
					return
				}
				results[n] = s.deliver(ctx, client, req)
				results[n].event = order[n]
				done.Add(1)
			}
		})
	}
	finished := make(chan struct{})
	go func() { workers.Wait(); close(finished) }()
	progress.watch(finished, func() { progress.show("sent %d of %d", done.Load(), len(order)) })
	begun := min(int(next.Load()), len(order))
	return slices.DeleteFunc(results[:begun], func(r sent) bool { return r.status == 0 && r.err == nil }), failed
}

// newSendClient returns a client that contacts the target and nobody else.
func newSendClient(f *sendFlags) *http.Client {
	return &http.Client{
		Timeout:       f.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               nil, // not even one that the environment names
			DisableCompression:  true,
			MaxIdleConnsPerHost: f.concurrency,
		},
	}
}

// deliver sends one request.
func (s *sending) deliver(ctx context.Context, client *http.Client, signed *verify.Request) sent {
	req, err := s.httpRequest(ctx, signed)
	if err != nil {
		return sent{err: err}
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return sent{err: unwrapURL(err), took: time.Since(began)}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	took := time.Since(began)
	if err != nil {
		return sent{err: err, took: took}
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection can be used again
	return sent{status: resp.StatusCode, answer: shorten(string(answer)), took: took}
}

func (s *sending) httpRequest(ctx context.Context, signed *verify.Request) (*http.Request, error) {
	target := *s.target
	target.RawQuery, target.Fragment = signed.RawQuery, ""
	req, err := http.NewRequestWithContext(ctx, signed.Method, target.String(), bytes.NewReader(signed.Body))
	if err != nil {
		return nil, err
	}
	req.Header = signed.Header
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "hookonce-send")
	}
	return req, nil
}

// unwrapURL leaves the URL out of an error: it may hold a credential.
func unwrapURL(err error) error {
	var wrapped interface{ Unwrap() error }
	if errors.As(err, &wrapped) && wrapped.Unwrap() != nil {
		return wrapped.Unwrap()
	}
	return err
}

func shorten(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxAnswer {
		return strings.ToValidUTF8(text[:maxAnswer], "") + "…"
	}
	return text
}

// expected returns which answers are right: those of the hundred.
func (s *sending) expected() int {
	if s.flags.corrupt || s.flags.skew.Abs() > s.sender.Tolerance() {
		return 4
	}
	return 2
}

func newSendReport(s *sending, results []sent) *sendReport {
	hundred := s.expected()
	r := &sendReport{
		Requests: len(results), Events: min(s.flags.times, len(results)), Expected: strconv.Itoa(hundred) + "xx",
		Answers: []sendAnswers{}, FirstID: s.shownID, few: few(s, results),
	}
	byStatus := make(map[int]*sendAnswers)
	var took []time.Duration
	for i := range results {
		result := &results[i]
		if result.status/100 != hundred {
			r.Unexpected++
		}
		if result.status != 0 {
			took = append(took, result.took)
		}
		answers := byStatus[result.status]
		if answers == nil {
			answers = &sendAnswers{Status: result.status, Example: result.said()}
			byStatus[result.status] = answers
		}
		answers.Count++
	}
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		r.Answers = append(r.Answers, *byStatus[status])
	}
	r.Latency = latencies(took)
	return r
}

// latencies returns what is told of how long answers took.
func latencies(took []time.Duration) sendLatency {
	if len(took) == 0 {
		return sendLatency{}
	}
	slices.Sort(took)
	at := func(percent int) float64 {
		d := took[(len(took)*percent+99)/100-1]
		return float64(d.Microseconds()) / 1000
	}
	return sendLatency{
		Min: float64(took[0].Microseconds()) / 1000, Median: at(50), P95: at(95), P99: at(99), Max: at(100),
	}
}

func (p *program) printSendReport(r *sendReport, asJSON bool) error {
	if asJSON {
		return writeJSON(p.stdout, r)
	}
	t := newTable(p.stdout, "STATUS", "ANSWERS", "THE FIRST ONE")
	if r.few != nil {
		t = newTable(p.stdout, "EVENT", "STATUS", "TOOK", "ANSWER")
	}
	for i := range r.few {
		a := &r.few[i]
		t.row(strconv.Itoa(a.event+1), answered(a.status), a.took.Round(time.Millisecond/10).String(), orDash(a.said()))
	}
	for _, a := range r.Answers {
		if r.few == nil {
			t.row(answered(a.Status), strconv.Itoa(a.Count), orDash(a.Example))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "\n%s of %s, first id %s; answered in %.1f ms (median), %.1f ms (p99), %.1f ms at most\n",
		counted(r.Requests, "request"), counted(r.Events, "event"), orDash(printable(r.FirstID)), r.Latency.Median, r.Latency.P99, r.Latency.Max)
	return err
}

// answered is status for people.
func answered(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

// said is the beginning of an answer, or why there was none.
func (a *sent) said() string {
	if a.err != nil {
		return a.err.Error()
	}
	return a.answer
}

// printedRequest is the shape of --print --json, one object for each request.
type printedRequest struct {
	Method  string              `json:"method"`
	URL     string              `json:"url"`
	Headers map[string][]string `json:"headers"`
	Body    []byte              `json:"body_base64"`
}

// printRequests prints the requests in the form of HTTP/1.1.
func (p *program) printRequests(s *sending) error {
	for i, n := range s.order() {
		signed, err := s.request(n)
		if err != nil {
			return err
		}
		req, err := s.httpRequest(context.Background(), signed)
		if err != nil {
			return err
		}
		if s.flags.json {
			err := writeJSON(p.stdout, printedRequest{req.Method, req.URL.String(), req.Header, signed.Body})
			if err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			fmt.Fprint(p.stdout, "\n\n")
		}
		var head bytes.Buffer
		fmt.Fprintf(&head, "%s %s HTTP/1.1\nHost: %s\n", req.Method, req.URL.RequestURI(), cmp.Or(req.Host, req.URL.Host))
		req.Header.Del("Host")
		if err := req.Header.Write(&head); err != nil {
			return err
		}
		fmt.Fprintf(&head, "Content-Length: %d\n\n", len(signed.Body))
		if _, err := fmt.Fprintf(p.stdout, "%s%s\n", strings.ReplaceAll(head.String(), "\r\n", "\n"), signed.Body); err != nil {
			return err
		}
	}
	return nil
}
