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
	"github.com/hookonce/hookonce/internal/test/rig"
)

// withQuiet adds the source quiet beside gh.
func withQuiet(c *hookonce.Config) {
	quiet := c.Sources[0]
	quiet.Name = "quiet"
	c.Sources = append(c.Sources, quiet)
}

// quietDelivery is a delivery to the source quiet.
func quietDelivery(id, body string) *http.Request {
	r := delivery(id, body)
	r.URL.Path = "/webhooks/quiet"
	return r
}

// A source is answered while another source fills the queue.
func TestFloodOfOneSourceInTheQueue(t *testing.T) {
	t.Parallel()
	g := rig.NewGate()
	in := newEngine(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}, func(c *hookonce.Config) {
		c.Queue = 8
		withQuiet(c)
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
			if got := deliver(in, quietDelivery(fmt.Sprint(i), "{}")); got != ok {
				t.Errorf("a delivery of another source: %+v, want ok", got)
			}
		})
	}
	rig.WaitFor(t, func() bool { return len(flood) == 2 }) // they gave up their places
	close(g.Open)
	wg.Wait()
}

// A source is answered while the slow bodies of another one use all the memory that it may have.
func TestFloodOfOneSourceInMemory(t *testing.T) {
	t.Parallel()
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.BodyBytes = 256 << 10
		withQuiet(c)
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
	if got := deliver(in, quietDelivery("1", fmt.Sprintf("%16000d", 1))); got != ok {
		t.Errorf("a delivery of another source: %+v, want ok", got)
	}
	close(end)
	wg.Wait()
}
