package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// sendReport is the shape of --json.
type sendReport struct {
	Requests   int           `json:"requests"`
	Events     int           `json:"events"` // different ones
	Expected   string        `json:"expected"`
	Unexpected int           `json:"unexpected"` // answers of another kind, and requests without an answer
	Answers    []sendAnswers `json:"answers"`
	Latency    sendLatency   `json:"latency_ms"`     // of the answered requests
	FirstID    string        `json:"first_event_id"` // "" if no id can be read

	few []sent // all outcomes, if they are few enough to show one by one; otherwise nil
}

// maxFew is how many answers are shown one by one.
const maxFew = 10

// sendAnswers are the answers with one status; status 0 means no answer.
type sendAnswers struct {
	Status  int    `json:"status"`
	Count   int    `json:"count"`
	Example string `json:"example"` // the beginning of the first answer's body, or why there was no answer
}

type sendLatency struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

func newSendReport(s *sending, results []sent) *sendReport {
	hundred := s.expected()
	r := &sendReport{
		Requests: len(results), Events: min(s.flags.times, len(results)), Expected: strconv.Itoa(hundred) + "xx",
		Answers: []sendAnswers{}, FirstID: s.shownID,
	}
	if len(results) <= maxFew {
		r.few = results
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

// latencies sorts took and returns its exact percentiles, by the nearest-rank method.
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
	t := newFacts(p.stdout, "STATUS", "ANSWERS", "FIRST ANSWER")
	if r.few != nil {
		t = newFacts(p.stdout, "EVENT", "STATUS", "TOOK", "ANSWER")
	}
	for i := range r.few {
		a := &r.few[i]
		t.row(strconv.Itoa(a.event+1), answered(a.status), say.Brief(a.took), orDash(a.said()))
	}
	for _, a := range r.Answers {
		if r.few == nil {
			t.row(answered(a.Status), strconv.Itoa(a.Count), orDash(a.Example))
		}
	}
	t.Flush()
	times := "no answer"
	if l := &r.Latency; l.Max > 0 {
		times = fmt.Sprintf("answered in %s (median), %s (p99), %s (maximum)", say.BriefSeconds(l.Median/1000), say.BriefSeconds(l.P99/1000), say.BriefSeconds(l.Max/1000))
	}
	_, err := fmt.Fprintf(p.stdout, "\n%s of %s, first id %s\n%s\n",
		say.Count(r.Requests, "request"), say.Count(r.Events, "event"), orDash(shown.Escape(r.FirstID)), times)
	return err
}

// answered formats a status for people.
func answered(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

// said returns the beginning of the answer, or why there was none.
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

// printRequests prints the requests as HTTP/1.1.
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
