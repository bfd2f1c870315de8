package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// settings loads text as a settings file.
func settings(t *testing.T, text string) *config.Settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hookonce.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := config.Load(config.LoadOptions{
		File:    file,
		Environ: func() []string { return nil },
		Flags:   config.Flags{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running is a call of Serve.
type running struct {
	cancel context.CancelFunc
	log    *logBuffer
	err    chan error
	// serving receives the addresses that Serve tells.
	serving chan [2]string
}

func serve(t *testing.T, s *config.Settings) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel: cancel, log: &logBuffer{changed: make(chan struct{}, 1)}, err: make(chan error, 1), serving: make(chan [2]string, 1)}
	logger := slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.err <- Serve(ctx, &Options{
			Settings: s, Logger: logger, Serving: func(public, admin string) { r.serving <- [2]string{public, admin} },
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// wait returns the error of Serve.
func (r *running) wait(t *testing.T) error {
	t.Helper()
	err := eventually.Receive(t, "Serve returns", r.err)
	r.err <- err
	return err
}

// await waits for a log line that has attr, and returns the first one.
func (r *running) await(t *testing.T, attr string) map[string]any {
	t.Helper()
	timeout := time.After(eventually.Bound)
	for {
		for line := range strings.Lines(r.log.text()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("log line %q: %v", line, err)
			}
			if fields[attr] != nil {
				return fields
			}
		}
		select {
		case <-r.log.changed:
		case err := <-r.err:
			t.Fatalf("waiting for a log line with %q: Serve returned %v:\n%s", attr, err, r.log.text())
		case <-timeout:
			t.Fatalf("no log line with %q:\n%s", attr, r.log.text())
		}
	}
}

type logBuffer struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return b.buf.Write(p)
}

func (b *logBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// status returns the status of GET url.
func status(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func wantHint(t *testing.T, err error, message, hint string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v has no hint", err)
	}
	if !strings.Contains(e.Error(), message) || !strings.Contains(e.Hint(), hint) {
		t.Errorf("error %q, hint %q; want %q and %q in them", e, e.Hint(), message, hint)
	}
}
