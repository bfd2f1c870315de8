package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// viewer follows the stream of a gateway.
type viewer struct {
	last  string
	rows  chan streamRow // closed at the end of the stream
	close func()
}

// streamRow is a row of the stream, with its id.
type streamRow struct {
	id      string
	Kind    string `json:"kind"`
	EventID string `json:"event_id"`
	Outcome string `json:"outcome"`
}

// view follows the stream of g from the id last on, or from now on.
func (g *gateway) view(t *testing.T, last string) *viewer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.admin+"/api/v1/stream?kind=delivery", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", last)
	resp, err := http.DefaultClient.Do(r) //nolint:bodyclose // closed by viewer.close
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream is answered %v, %v", resp, err)
	}
	v := &viewer{last: last, rows: make(chan streamRow, 1000), close: func() {
		cancel()
		resp.Body.Close()
	}}
	t.Cleanup(v.close)
	go func() {
		defer close(v.rows)
		var row streamRow
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				row.id = id
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &row) == nil {
				v.rows <- row
			}
		}
	}()
	return v
}

// next returns the next row, or false at the end of the stream or after within.
func (v *viewer) next(within time.Duration) (streamRow, bool) {
	select {
	case row, ok := <-v.rows:
		if ok {
			v.last = row.id
		}
		return row, ok
	case <-time.After(within):
		return streamRow{}, false
	}
}

// TestStreamShowsItsFirstSecond: a first viewer at a gateway sees what happens right after it was opened, at that
// gateway and at another one that cannot know of it yet.
func TestStreamShowsItsFirstSecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "postgres"), standardSettings)
	gateways := []*gateway{w.start(t), w.start(t)}
	for _, watched := range gateways {
		v := watched.view(t, "")
		want := make(map[string]bool)
		for i := range 40 {
			id := fmt.Sprint(watched.admin, "-", i)
			gateways[i%2].expect(t, push(id), "200 ok")
			want[id] = true
		}
		for len(want) > 0 {
			row, ok := v.next(eventually.Bound)
			if !ok {
				t.Fatalf("%d of 40 deliveries are not shown: %v", len(want), want)
			}
			delete(want, row.EventID)
		}
		v.close()
	}
}

// TestStreamAcrossGateways: a viewer at one gateway sees the deliveries of another one. When its
// gateway is killed, it goes on at the other one, without a gap and without a repetition.
func TestStreamAcrossGateways(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "postgres"), standardSettings)
	a, b := w.start(t), w.start(t)
	v := a.view(t, "")
	began := false
	for i := 0; !began; i++ { // b may not know yet that somebody looks
		b.expect(t, push(fmt.Sprint("warm-", i)), "200 ok")
		_, began = v.next(100 * time.Millisecond)
	}
	b.expect(t, push("mark"), "200 ok")
	for mark := false; !mark; {
		row, ok := v.next(eventually.Bound)
		if !ok {
			t.Fatal("the stream is silent")
		}
		mark = row.EventID == "mark"
	}
	var slowest time.Duration
	var want []string
	deliver := func(to *gateway, id string) {
		to.expect(t, push(id), "200 ok")
		want = append(want, id)
	}
	read := func(from *viewer, id string) {
		t.Helper()
		sent := time.Now()
		if row, ok := from.next(eventually.Bound); row.EventID != id || row.Outcome != "ok" {
			t.Fatalf("the viewer sees %+v, %v, want %s", row, ok, id)
		}
		slowest = max(slowest, time.Since(sent))
	}
	for i := range 5 {
		id := fmt.Sprint("b-", i)
		deliver(b, id)
		read(v, id)
	}
	t.Logf("the slowest delivery took %v to the viewer", slowest)
	a.kill()
	for _, open := v.next(eventually.Bound); open; _, open = v.next(eventually.Bound) {
		t.Error("a row came out of nothing")
	}
	want = nil
	for i := range 5 {
		deliver(b, fmt.Sprint("c-", i))
	}
	again := b.view(t, v.last)
	for _, id := range want {
		read(again, id)
	}
}
