package receivers

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/internal/test/control"
	"github.com/hookonce/hookonce/internal/test/examplestest"
)

const secret = "whsec_for_the_receivers_under_probe"

// receiver is a running receiver, and the control that the commands of the probe reach.
type receiver struct {
	url     string                   // of the webhook
	flags   []string                 // of the probe, for this receiver
	command func(path string) string // the command that asks the control

	effects func(ctx context.Context, id string) (int, error) // how often an event took effect
	trouble func(ctx context.Context, on bool) error          // makes the work fail, or ends that
	restart func()                                            // kills and starts it
}

// start starts one of the receivers of this folder, on a database of its own. It obeys DATABASE_URL,
// WEBHOOK_SECRET, LISTEN and FAULT. Its trouble is that it cannot write into the table broken.
func start(t *testing.T, fault, broken string, command ...string) *receiver {
	t.Helper()
	databaseURL, _, db := examplestest.Postgres(t)
	program := startProgram(t, []string{"DATABASE_URL=" + databaseURL, "WEBHOOK_SECRET=" + secret, "FAULT=" + fault}, command...)
	return overSQL(t, &receiver{
		url:     program.URL() + "/webhook",
		flags:   []string{"--provider", "stripe", "--secret", secret},
		restart: func() { program.Crash(t) },
	}, db, effectsOf, troubleIn(broken, true), troubleIn(broken, false))
}

// startProgram starts a program that has the same address after each start, and kills it when the
// test ends: a request that the probe left open may keep it from ending by itself.
func startProgram(t *testing.T, env []string, command ...string) *examplestest.Program {
	t.Helper()
	program := examplestest.Start(t, append(env, "LISTEN="+freeAddress(t)), command...)
	t.Cleanup(func() { program.Kill(t) })
	return program
}

// overSQL gives a receiver its effects and its trouble from statements, and serves its control.
func overSQL(t *testing.T, r *receiver, db *sql.DB, effects, begin, end string) *receiver {
	t.Helper()
	r.effects = func(ctx context.Context, id string) (n int, err error) {
		err = db.QueryRowContext(ctx, effects, id).Scan(&n)
		return n, err
	}
	r.trouble = func(ctx context.Context, on bool) error {
		statement := end
		if on {
			statement = begin
		}
		_, err := db.ExecContext(ctx, statement)
		return err
	}
	r.serveControl(t)
	return r
}

// troubleIn returns the statement that makes all writes into a table of PostgreSQL fail, or the one
// that ends this.
func troubleIn(table string, on bool) string {
	if on {
		return "ALTER TABLE " + table + " ADD CONSTRAINT trouble CHECK (false) NOT VALID"
	}
	return "ALTER TABLE " + table + " DROP CONSTRAINT trouble"
}

// ports is the next port for a receiver. The range is below those that systems give to outgoing
// connections, so that a port stays free while a receiver restarts.
var ports atomic.Int32

const (
	firstPort = 20000
	lastPort  = 30000
)

// freeAddress returns an unused address.
func freeAddress(t testing.TB) string {
	t.Helper()
	ports.CompareAndSwap(0, firstPort+rand.Int32N(lastPort-firstPort))
	for range lastPort - firstPort {
		port := firstPort + ports.Add(1)%(lastPort-firstPort)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer listener.Close()
		return listener.Addr().String()
	}
	t.Fatalf("no port of %d to %d is free", firstPort, lastPort)
	return ""
}

// serveControl serves the commands of the probe until the test ends.
func (r *receiver) serveControl(t *testing.T) {
	t.Helper()
	var mu sync.Mutex // for commands that change the receiver
	mux := http.NewServeMux()
	mux.HandleFunc("GET /effects/{id}", func(w http.ResponseWriter, req *http.Request) {
		n, err := r.effects(req.Context(), req.PathValue("id"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, n)
	})
	mux.HandleFunc("GET /trouble/{state}", func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if err := r.trouble(req.Context(), req.PathValue("state") == "on"); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /restart", func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		r.restart()
	})
	r.command = control.Serve(t, mux)
}
