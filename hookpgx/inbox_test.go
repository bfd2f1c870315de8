package hookpgx_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/provider"
)

var github = hookonce.Source{
	Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets("0123456789abcdef"), AckTimeout: 30 * time.Second,
}

// deliver delivers event i of the source github, and returns the status of the answer.
func deliver(t *testing.T, h http.Handler, i int) int {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, hooktest.NewRequest(t, github, "{}", hooktest.WithEventID(fmt.Sprint(i))))
	return answer.Code
}

// TestFullQueue locks the table, so that claims wait and the queue fills up. Deliveries beyond the
// queue get 503 at once. Once the table is free, every queued delivery is durable, and every
// refused one when it comes again.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	full := newFirstLine("the queue is full")
	in, err := hookonce.NewEngine(w.Store, &hookonce.Config{
		Sources: []hookonce.Source{github},
		Queue:   4,
		Logger:  slog.New(slog.NewTextHandler(full, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Drain)

	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+w.schema+".event IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	const n = 128
	codes := make([]int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { codes[i] = deliver(t, in, i) })
	}
	eventually.Receive(t, "a delivery is refused because the queue is full", full.seen)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for i, code := range codes {
		if code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Errorf("delivery %d: %d", i, code)
		}
		if code == http.StatusServiceUnavailable {
			if again := deliver(t, in, i); again != http.StatusOK {
				t.Errorf("delivery %d, again: %d, want 200", i, again)
			}
		}
		if _, err := w.Event(t.Context(), "gh", fmt.Sprint(i)); err != nil {
			t.Errorf("delivery %d was answered 200: %v", i, err)
		}
	}
}

// firstLine is a log that waits for a text.
type firstLine struct {
	text []byte
	seen chan struct{}
	once sync.Once
}

func newFirstLine(text string) *firstLine {
	return &firstLine{text: []byte(text), seen: make(chan struct{})}
}

func (l *firstLine) Write(p []byte) (int, error) {
	if bytes.Contains(p, l.text) {
		l.once.Do(func() { close(l.seen) })
	}
	return len(p), nil
}
