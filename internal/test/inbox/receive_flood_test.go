package inbox_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// A source is answered while another source fills the queue.
func TestFloodOfOneSourceInTheQueue(t *testing.T) {
	t.Parallel()
	g := rig.NewGate()
	in := newEngine(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}, func(c *hookonce.Config) {
		c.Queue = 8
		addSource(c, "quiet", nil)
	})
	var wg sync.WaitGroup
	wg.Go(func() { deliver(in, delivery("held", "{}")) })
	<-g.Arrived
	flood := make(chan result, 9)
	for i := range 9 {
		wg.Go(func() { flood <- deliver(in, delivery(fmt.Sprint("flood ", i), "{}")) })
	}
	if got := <-flood; got.Code != 503 {
		t.Errorf("the delivery of the flood that does not fit: %+v, want 503", got)
	}
	for i := range 2 {
		wg.Go(func() {
			if got := deliver(in, delivery(fmt.Sprint(i), "{}", to("quiet"))); got != ok {
				t.Errorf("a delivery of another source: %+v, want ok", got)
			}
		})
	}
	eventually.True(t, "two more of the flood gave up their places", func() bool { return len(flood) == 2 })
	close(g.Open)
	wg.Wait()
}

// A source is answered while the slow bodies of another one use all the memory that it may have.
func TestFloodOfOneSourceInMemory(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.BodyBytes = 256 << 10
		addSource(c, "quiet", nil)
	})
	var wg sync.WaitGroup
	end := make(chan struct{})
	refused := make(chan struct{}, 1000)
	for full := false; !full; {
		body, rest := io.Pipe()
		r := httptest.NewRequest(http.MethodPost, "/webhooks/gh", body)
		r.ContentLength = 16 << 10
		wg.Go(func() {
			w := httptest.NewRecorder()
			in.ServeHTTP(w, r)
			body.Close()
			if w.Code == 503 {
				refused <- struct{}{}
			}
		})
		_, err := rest.Write(bytes.Repeat([]byte("x"), 8<<10)) // fails if the body is refused before its end
		full = err != nil
		wg.Go(func() { <-end; rest.Close() })
	}
	<-refused
	if got := deliver(in, delivery("1", fmt.Sprintf("%16000d", 1), to("quiet"))); got != ok {
		t.Errorf("a delivery of another source: %+v, want ok", got)
	}
	close(end)
	wg.Wait()
}
