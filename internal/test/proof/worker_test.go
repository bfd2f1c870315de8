package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// workerVariable names the environment variable that turns this binary into a worker process. It
// holds the worker's settings as JSON.
const workerVariable = "HOOKONCE_PROOF_WORKER"

// settings configure a worker process.
type settings struct {
	Variant        string
	Database       string // DSN, or path of the SQLite file
	Folder         string // of the records
	Receiver       bool   // has no handlers: a consumer takes the events
	HandlerTimeout time.Duration
	DieOnce        bool // an event ends no second process
	// Gate is a file that handlers wait for after they have written their effect; "" for no
	// waiting.
	Gate string
}

// The one source and its settings, the same in every worker.
const (
	sourceName   = "proof"
	sourceSecret = "a-secret-of-the-proof-only-40251"
	ledger       = "ledger" // the destination
	attempts     = 5
	firstRetry   = 20 * time.Millisecond
	maxRetry     = 200 * time.Millisecond
	signatureIn  = "X-Proof-Signature"
)

// order is the body of an event. It tells the handler what to do.
type order struct {
	ID      string `json:"id"`
	Does    string `json:"does"`
	Message bool   `json:"message"` // the handler enqueues a message
}

// A handler's last step, after it has written its effect and its message.
const (
	succeed      = "succeed"
	failTwice    = "fail twice"
	panicAlways  = "panic"
	failForGood  = "fail for good"
	killProcess  = "kill the process"
	leaveProcess = "leave the process"

	leaveCode = 77
)

// The errors of handlers.
const (
	failText  = "this attempt was meant to fail"
	panicText = "this handler was meant to panic"
	goodText  = "this event was meant to fail for good"
)

// records are files. Workers write their next step into them before they take it, and a written
// line stays when the process is killed.
type records struct{ runs, waiting, passed, deaths, sent *os.File }

// The files of records, and the words of each line.
const (
	runsFile    = "runs"    // event id, attempt, process: a handler was called
	waitingFile = "waiting" // event id, process: a handler has written its effect, and waits for the gate
	passedFile  = "passed"  // event id, process: a handler has passed the gate
	deathsFile  = "deaths"  // event id, process: a handler ends its process
	sentFile    = "sent"    // message id, event id: a message is sent
)

func openRecords(folder string) (*records, error) {
	var r records
	for name, file := range map[string]**os.File{
		runsFile: &r.runs, waitingFile: &r.waiting, passedFile: &r.passed, deathsFile: &r.deaths, sentFile: &r.sent,
	} {
		var err error
		if *file, err = os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

// note appends a line to a record with one system call, so that lines of several processes do not
// mix.
func note(file *os.File, words ...any) {
	if _, err := file.WriteString(fmt.Sprintln(words...)); err != nil {
		panic(err)
	}
}

// worker is a worker process.
type worker struct {
	settings
	records *records
}

// workerMain runs a worker process and returns its exit code.
func workerMain(text string) int {
	w := &worker{}
	err := json.Unmarshal([]byte(text), &w.settings)
	if err == nil {
		w.records, err = openRecords(w.Folder)
	}
	if err == nil {
		err = w.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

// serve receives webhooks and runs handlers until the process gets SIGTERM or the test ends.
func serve[T any](w *worker, db driver.Driver[T], insert insertFunc[T]) error {
	mux := &hookonce.Mux[T]{}
	if !w.Receiver {
		hookonce.HandleJSON(mux, sourceName, "*", handler(w, db, insert))
	}
	in, err := hookonce.New(db, mux, w.config())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // returns when the test ends
		stop()
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	routes := http.NewServeMux()
	routes.Handle("POST /webhooks/{source}", in)
	server := &http.Server{Handler: routes}

	var wg sync.WaitGroup
	var served, ran error
	wg.Go(func() { served = server.Serve(listener) })
	wg.Go(func() { ran = in.Run(ctx) })
	fmt.Println(listener.Addr())
	<-ctx.Done()
	in.Drain()
	closed := server.Shutdown(context.Background())
	wg.Wait()
	if errors.Is(served, http.ErrServerClosed) {
		served = nil
	}
	return errors.Join(served, ran, closed)
}

func (w *worker) config() *hookonce.Config {
	source := hookonce.Source{
		Name: sourceName, Provider: provider.HMAC, Secrets: hookonce.StaticSecrets(sourceSecret),
		Signature: &verify.Scheme{ID: "sha256", Family: verify.FamilyHMAC, Header: signatureIn},
		Event:     provider.EventRules{ID: "body:id", Type: "body:does"},
	}
	if w.Receiver {
		source.Consume = hookonce.ConsumeSQL
	}
	return &hookonce.Config{
		Sources: []hookonce.Source{source},
		Destinations: []hookonce.Destination{{
			Name: ledger, Sender: hookonce.SenderFunc(w.send), Timeout: time.Second,
			Retry: hookonce.Retry{Attempts: 100, First: firstRetry, Max: maxRetry},
		}},
		HandlerTimeout: w.HandlerTimeout,
		Retry:          hookonce.Retry{Attempts: attempts, First: firstRetry, Max: maxRetry},
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
}

// send records a message as sent.
func (w *worker) send(_ context.Context, m *hookonce.Outgoing) error {
	note(w.records.sent, m.ID, string(m.Body))
	return nil
}

// insertFunc writes the effect of an event.
type insertFunc[T any] func(ctx context.Context, tx T, ev *hookonce.Event) error

func handler[T any](w *worker, db driver.Driver[T], insert insertFunc[T]) func(context.Context, T, *hookonce.Event, order) error {
	outbox := hookonce.NewOutbox(db)
	return func(ctx context.Context, tx T, ev *hookonce.Event, o order) error {
		note(w.records.runs, ev.ID, ev.Attempt, os.Getpid())
		if err := insert(ctx, tx, ev); err != nil {
			return err
		}
		if o.Message {
			if err := outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: ledger, Body: []byte(ev.ID)}); err != nil {
				return err
			}
		}
		w.wait(ev)
		does := o.Does
		if w.DieOnce && o.mayDie() && w.hasEnded(o.ID) {
			does = succeed
		}
		return w.misbehave(ev, does)
	}
}

// hasEnded reports whether an event has ended a process.
func (w *worker) hasEnded(id string) bool {
	text, err := os.ReadFile(w.records.deaths.Name())
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, id+" ") {
			return true
		}
	}
	return false
}

// wait waits until the gate exists, past any timeout if necessary.
func (w *worker) wait(ev *hookonce.Event) {
	if w.Gate == "" {
		return
	}
	note(w.records.waiting, ev.ID, os.Getpid())
	for {
		if _, err := os.Stat(w.Gate); err == nil {
			note(w.records.passed, ev.ID, os.Getpid())
			return
		}
		<-time.After(time.Millisecond)
	}
}

// misbehave takes the handler's last step.
func (w *worker) misbehave(ev *hookonce.Event, does string) error {
	switch does {
	case succeed:
		return nil
	case failTwice:
		if ev.Attempt <= 2 {
			return errors.New(failText)
		}
		return nil
	case panicAlways:
		panic(panicText)
	case failForGood:
		return hookonce.Permanent(errors.New(goodText))
	case killProcess:
		note(w.records.deaths, ev.ID, os.Getpid())
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // an error could not be handled
		select {}
	case leaveProcess:
		note(w.records.deaths, ev.ID, os.Getpid())
		os.Exit(leaveCode)
	}
	return fmt.Errorf("unknown order %q", does)
}
