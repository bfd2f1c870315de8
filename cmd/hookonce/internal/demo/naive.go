package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// secretsFile holds the secrets of the providers, in the demo's folder.
const secretsFile = "secrets.json"

// Naive is the process of the receiver that checks, then acts. It verifies the signature, asks its
// database whether it has seen the event, does the work, and marks the event as seen. Its ledger is in
// folder.
func Naive(ctx context.Context, folder string, out io.Writer) error {
	text, err := os.ReadFile(filepath.Join(folder, secretsFile))
	if err != nil {
		return err
	}
	var secrets map[provider.Name]string
	if err := json.Unmarshal(text, &secrets); err != nil {
		return fmt.Errorf("%s: %w", secretsFile, err)
	}
	n := &naive{till: till{folder, naiveLedger}, extract: make(map[provider.Name]*provider.Extractor, len(names))}
	if n.senders, err = newSenders(secrets); err != nil {
		return err
	}
	for name, s := range n.senders {
		if n.extract[name], err = provider.CompileRules(s.Rules); err != nil {
			return err
		}
	}
	if n.db, err = openLedger(ctx, folder, naiveLedger); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhooks/{source}", n.receive)
	return errors.Join(serve(ctx, mux, out), n.db.Close())
}

type naive struct {
	till
	db      *sql.DB
	senders map[provider.Name]*sender
	extract map[provider.Name]*provider.Extractor
}

func (n *naive) receive(w http.ResponseWriter, r *http.Request) {
	source := provider.Name(r.PathValue("source"))
	body, err := io.ReadAll(r.Body)
	s := n.senders[source]
	if err != nil || s == nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	if s.Verifier.Verify(&verify.Request{Method: r.Method, Header: r.Header, Body: body, Now: time.Now()}, []verify.Key{s.key}) != nil {
		http.Error(w, "the signature is wrong", http.StatusUnauthorized)
		return
	}
	events, _ := n.extract[source].Extract(&locate.Input{Header: r.Header, Body: body})
	if len(events) != 1 {
		http.Error(w, "no event", http.StatusBadRequest)
		return
	}
	f, err := read(string(source), events[0].Type, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// The work goes on if the sender hangs up.
	status, err := n.handle(context.WithoutCancel(r.Context()), string(source), events[0].ID, f)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, `{"status":%q}`, status)
}

// handle has the fault of many first attempts. Between the question and the mark, a copy of the event
// may come, or the process may end: then the work is done twice.
func (n *naive) handle(ctx context.Context, source, id string, f facts) (status string, err error) {
	var seen int
	if err := n.db.QueryRowContext(ctx, "SELECT count(*) FROM seen WHERE source = ? AND event_id = ?", source, id).Scan(&seen); err != nil {
		return "", err
	}
	if seen > 0 {
		return "duplicate", nil
	}
	if err := n.check(f.account); err != nil {
		return "", err
	}
	time.Sleep(naiveTime)
	if err := book(ctx, n.db, source, id, f); err != nil {
		return "", err
	}
	_, err = n.db.ExecContext(ctx, "INSERT INTO seen (source, event_id) VALUES (?, ?)", source, id)
	return "ok", err
}
