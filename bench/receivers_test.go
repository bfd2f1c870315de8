package bench

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// roleVariable names the environment variable that turns this binary into a server under
// measurement.
const roleVariable = "HOOKONCE_BENCH_ROLE"

const (
	roleBare       = "bare"        // verifies, and answers
	rolePerRequest = "per-request" // verifies, writes the rows, commits, answers
	roleOnSQLite   = "on-sqlite"   // the same in an SQLite file
	roleClient     = "client"      // sends, see sendAlone
)

// databaseVariable holds the DSN for the roles that use a database.
const databaseVariable = "HOOKONCE_BENCH_DATABASE"

// serveRole runs a role and returns the exit code. Servers run until their standard input ends.
func serveRole(role string) int {
	var err error
	if role == roleClient {
		err = sendAlone()
	} else if handler, failed := newReceiver(role); failed != nil {
		err = failed
	} else {
		err = serveUntilEOF(handler)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

func serveUntilEOF(handler http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Println(listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func newReceiver(role string) (http.Handler, error) {
	switch role {
	case roleBare:
		return receiver(nil), nil
	case rolePerRequest:
		return perRequest(os.Getenv(databaseVariable))
	case roleOnSQLite:
		return onSQLite(os.Getenv(databaseVariable))
	}
	return nil, fmt.Errorf("there is no role %q", role)
}

// claimFunc claims an event and reports whether it is the first to do so.
type claimFunc func(ctx context.Context, id, eventType string, header http.Header, body []byte) (bool, error)

// receiver returns the usual handler: it verifies a Stripe delivery, claims its event, and answers.
func receiver(claim claimFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
			return
		}
		if !verified(r.Header.Get("Stripe-Signature"), body) {
			http.Error(w, "unverified", http.StatusUnauthorized)
			return
		}
		answer := struct {
			Status string `json:"status"`
			ID     string `json:"event_id"`
		}{Status: "ok"}
		if claim != nil {
			var event struct {
				ID   string `json:"id"`
				Type string `json:"type"`
			}
			if err := json.Unmarshal(body, &event); err != nil || event.ID == "" {
				http.Error(w, "malformed", http.StatusBadRequest)
				return
			}
			first, err := claim(context.WithoutCancel(r.Context()), event.ID, event.Type, r.Header, body)
			if err != nil {
				http.Error(w, "unavailable", http.StatusServiceUnavailable)
				return
			}
			answer.ID = event.ID
			if !first {
				answer.Status = "duplicate"
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client may have hung up
	})
}

// verified checks a header "t=...,v1=...".
func verified(header string, body []byte) bool {
	var stamp, signature string
	for _, part := range strings.Split(header, ",") {
		switch key, value, _ := strings.Cut(part, "="); key {
		case "t":
			stamp = value
		case "v1":
			signature = value
		}
	}
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || math.Abs(float64(time.Now().Unix()-at)) > 300 {
		return false
	}
	got, err := hex.DecodeString(signature)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, stamp+".")
	_, _ = mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}

// perRequest returns a receiver that writes the same two rows for each request as hookonce for an
// event with a handler. It uses one statement: one round trip and one commit.
func perRequest(dsn string) (http.Handler, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 32 // more is not faster, fewer is slower
	ctx := context.Background()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{
		`CREATE SCHEMA IF NOT EXISTS byhand`,
		`CREATE TABLE IF NOT EXISTS byhand.event (
			key bytea PRIMARY KEY, source text NOT NULL, event_id text NOT NULL, type text NOT NULL,
			received_at timestamptz NOT NULL DEFAULT now(), headers bytea NOT NULL, body bytea NOT NULL)`,
		`CREATE INDEX IF NOT EXISTS event_received ON byhand.event (received_at)`,
		`CREATE TABLE IF NOT EXISTS byhand.event_state (
			key bytea PRIMARY KEY, source text NOT NULL, state smallint NOT NULL, due_at timestamptz NOT NULL)`,
		`CREATE INDEX IF NOT EXISTS event_state_due ON byhand.event_state (source, due_at) WHERE state = 0`,
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	const insert = `WITH claimed AS (
			INSERT INTO byhand.event (key, source, event_id, type, headers, body) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (key) DO NOTHING RETURNING key
		)
		INSERT INTO byhand.event_state (key, source, state, due_at) SELECT key, $2, 0, now() FROM claimed`
	return receiver(func(ctx context.Context, id, eventType string, header http.Header, body []byte) (bool, error) {
		key := sha256.Sum256([]byte(sourceName + "\x00" + id))
		headers, err := json.Marshal(header)
		if err != nil {
			return false, err
		}
		tag, err := pool.Exec(ctx, insert, key[:], sourceName, id, eventType, headers, body)
		return tag.RowsAffected() == 1, err
	}), nil
}

// onSQLite returns a receiver that writes the same two rows for each request into an SQLite file.
func onSQLite(path string) (http.Handler, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	if _, err := db.Exec(`CREATE TABLE event (
			key BLOB PRIMARY KEY, source TEXT NOT NULL, event_id TEXT NOT NULL, type TEXT NOT NULL,
			received_at INTEGER NOT NULL, headers BLOB NOT NULL, body BLOB NOT NULL);
		CREATE INDEX event_received ON event (received_at);
		CREATE TABLE event_state (key BLOB PRIMARY KEY, source TEXT NOT NULL, state INTEGER NOT NULL, due_at INTEGER NOT NULL);
		CREATE INDEX event_state_due ON event_state (source, due_at) WHERE state = 0`); err != nil {
		return nil, err
	}
	event, err := db.Prepare("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING")
	if err != nil {
		return nil, err
	}
	state, err := db.Prepare("INSERT INTO event_state VALUES (?, ?, 0, ?)")
	if err != nil {
		return nil, err
	}
	return receiver(func(ctx context.Context, id, eventType string, header http.Header, body []byte) (bool, error) {
		key := sha256.Sum256([]byte(sourceName + "\x00" + id))
		headers, err := json.Marshal(header)
		if err != nil {
			return false, err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return false, err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after a commit
		now := time.Now().UnixMicro()
		written, err := tx.StmtContext(ctx, event).ExecContext(ctx, key[:], sourceName, id, eventType, now, headers, body) //nolint:sqlclosecheck // the transaction closes it
		if err != nil {
			return false, err
		}
		if n, err := written.RowsAffected(); err != nil || n == 0 {
			return false, err
		}
		_, err = tx.StmtContext(ctx, state).ExecContext(ctx, key[:], sourceName, now) //nolint:sqlclosecheck // the transaction closes it
		if err != nil {
			return false, err
		}
		return true, tx.Commit()
	}), nil
}
