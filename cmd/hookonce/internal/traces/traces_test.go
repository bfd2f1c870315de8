package traces

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/observe"
)

// A redirect would hand the collector's key to another host.
func TestExporterFollowsNoRedirect(t *testing.T) {
	var asked, followed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer elsewhere.Close()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=canary")
	exporter, err := New(t.Context(), os.Getenv, "v0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := exporter.Start(t.Context(), observe.SpanStart{Name: observe.SpanReceive, At: time.Now()})
	span.End(observe.SpanEnd{At: time.Now()})
	exporter.Close()
	if asked.Load() == 0 || followed.Load() > 0 {
		t.Errorf("the collector got %d requests, and the host that it redirects to %d, want none there", asked.Load(), followed.Load())
	}
}

// A file of the exporter that never ends, or never answers, is refused at the start.
func TestOddFilesAreRefused(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY"} {
		err := check(func(variable string) string { return map[string]string{name: os.DevNull}[variable] })
		if err == nil || !strings.Contains(err.Error(), "the file of "+name+" cannot be read: it is not a regular file") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
