package app

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestShutdownEndsLongAdminRequests stops a server during a request that would never end, such as a
// bulk replay with a rate.
func TestShutdownEndsLongAdminRequests(t *testing.T) {
	t.Parallel()
	working := make(chan struct{})
	long := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(working)
		<-r.Context().Done()
		w.WriteHeader(http.StatusAccepted)
	})
	l, err := listen(t.Context(), "admin.listen", "127.0.0.1:0", adminServer(long), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- l.serve() }()
	type answer struct {
		status int
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := http.Post("http://"+l.Addr().String(), "application/json", nil)
		if err != nil {
			answered <- answer{0, err}
			return
		}
		resp.Body.Close()
		answered <- answer{resp.StatusCode, nil}
	}()
	<-working
	ctx := eventually.Context(t)
	if err := l.shutdown(ctx); err != nil {
		t.Error(err)
	}
	if got := <-answered; got.err != nil || got.status != http.StatusAccepted {
		t.Errorf("answered %+v", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
