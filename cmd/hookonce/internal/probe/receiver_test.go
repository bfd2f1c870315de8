package probe_test

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
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The faults of the receiver, each of them alone; "" is the right receiver.
const (
	checkThenAct   = "check-then-act"
	claimFirst     = "claim-before-the-work"
	claimLast      = "claim-after-the-work"
	unverified     = "no-signature-check"
	rewritten      = "signature-of-parsed-json"
	noWindow       = "no-time-window"
	takesFuture    = "future-accepted"
	firstSignature = "first-signature-only"
	failsDuplicate = "500-on-a-duplicate"
	blamesSender   = "4xx-on-its-own-trouble"
	slow           = "slow-work"
	hashKey        = "key-from-a-body-hash"
	inMemory       = "ids-in-memory"
	unlimited      = "no-body-limit"
	crashes        = "500-on-malformed"
	oneByOne       = "one-request-at-a-time"
)

// worksLater is no fault: the receiver stores the event, answers, and then works.
const worksLater = "works-later"

const (
	secret = "whsec_of_the_five_minute_test"
	// workTime is how long the work of one event takes.
	workTime = 10 * time.Millisecond
	// slowTime is the same for the fault slow.
	slowTime = 500 * time.Millisecond
	bodyMax  = 1 << 20
)

// receiverVariable is set where this binary runs as a receiver.
const receiverVariable = "PROBE_TEST_RECEIVER"

func TestMain(m *testing.M) {
	if os.Getenv(receiverVariable) != "" {
		fmt.Fprintln(os.Stderr, receive(os.Args[1], os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0") // for this binary as a receiver
	dbtest.Parallel(8)
	os.Exit(m.Run())
}

// openLedger opens the database of a receiver in a folder. It need not survive a power failure.
func openLedger(dir string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+filepath.Join(dir, "ledger.db")+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_txlock=immediate")
}

// receive serves until the process is killed. Its address is that in the file address, or a free one
// that it writes there.
func receive(dir, provider, fault string) error {
	db, err := openLedger(dir)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS seen (key TEXT PRIMARY KEY); CREATE TABLE IF NOT EXISTS effects (event TEXT); CREATE TABLE IF NOT EXISTS open (event TEXT)"); err != nil {
		return err
	}
	file := filepath.Join(dir, "address")
	address, err := os.ReadFile(file)
	if err != nil {
		address = []byte("127.0.0.1:0")
	}
	listener, err := listen(string(address))
	if err != nil {
		return err
	}
	if err := writeWhole(filepath.Join(dir, "pid"), strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if err := writeWhole(file, listener.Addr().String()); err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	rc := &receiver{db: db, provider: provider, fault: fault, ids: make(map[string]bool)}
	if fault == worksLater {
		go rc.workLater(context.Background())
	}
	return http.Serve(listener, rc) //nolint:gosec // slow bodies are the prober's
}

// listen waits until the killed process before this one has left the address.
func listen(address string) (net.Listener, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		listener, err := net.Listen("tcp", address)
		if err == nil || time.Since(began) > eventually.Bound {
			return listener, err
		}
	}
}

func writeWhole(path, text string) error {
	if err := os.WriteFile(path+".part", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// receiver takes the events of Stripe or GitHub, and works on each once, unless it has a fault.
type receiver struct {
	db              *sql.DB
	provider, fault string

	mu  sync.Mutex
	ids map[string]bool // of the fault inMemory

	one sync.Mutex // of the fault oneByOne
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rc.fault == oneByOne {
		rc.one.Lock()
		defer rc.one.Unlock()
	}
	w.WriteHeader(rc.answer(w, r))
}

func (rc *receiver) answer(w http.ResponseWriter, r *http.Request) int {
	if rc.fault != unlimited {
		if r.ContentLength > bodyMax {
			return http.StatusRequestEntityTooLarge
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return http.StatusBadRequest
	}
	if rc.fault != unverified && !rc.verified(r.Header, body) {
		return http.StatusUnauthorized
	}
	id := r.Header.Get("X-GitHub-Delivery")
	var doc struct{ ID string }
	switch err := json.Unmarshal(body, &doc); {
	case err != nil && rc.fault == crashes:
		return http.StatusInternalServerError
	case err != nil:
		return http.StatusBadRequest
	case rc.provider == "stripe":
		id = doc.ID
	}
	key := id
	if rc.fault == hashKey {
		sum := sha256.Sum256(body)
		key = hex.EncodeToString(sum[:])
	}
	duplicate, err := rc.take(r.Context(), key, id)
	switch {
	case err != nil && rc.fault == blamesSender:
		return http.StatusUnprocessableEntity
	case err != nil:
		return http.StatusServiceUnavailable
	case duplicate && rc.fault == failsDuplicate:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// verified checks the signature, and the time where the provider signs one.
func (rc *receiver) verified(h http.Header, body []byte) bool {
	if rc.fault == rewritten {
		var doc any
		if json.Unmarshal(body, &doc) != nil {
			return false
		}
		body, _ = json.Marshal(doc)
	}
	if rc.provider == "github" {
		return hmac.Equal([]byte("sha256="+sign(body)), []byte(h.Get("X-Hub-Signature-256")))
	}
	var at string
	var signatures []string
	for pair := range strings.SplitSeq(h.Get("Stripe-Signature"), ",") {
		switch name, value, _ := strings.Cut(pair, "="); name {
		case "t":
			at = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	if rc.fault == firstSignature {
		signatures = signatures[:min(len(signatures), 1)]
	}
	want := []byte(sign([]byte(at + "." + string(body))))
	right := false
	for _, signature := range signatures {
		right = right || hmac.Equal(want, []byte(signature))
	}
	return right && rc.inWindow(at)
}

func (rc *receiver) inWindow(at string) bool {
	const window = 5 * time.Minute
	seconds, err := strconv.ParseInt(at, 10, 64)
	age := time.Since(time.Unix(seconds, 0))
	switch rc.fault {
	case noWindow:
		return err == nil
	case takesFuture:
		return err == nil && age <= window
	}
	return err == nil && age.Abs() <= window
}

func sign(content []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(content)
	return hex.EncodeToString(mac.Sum(nil))
}

// take works on an event, unless it was seen before.
func (rc *receiver) take(ctx context.Context, key, id string) (duplicate bool, err error) {
	switch rc.fault {
	case checkThenAct:
		return rc.lookThenWork(context.WithoutCancel(ctx), key, id)
	case claimFirst:
		if duplicate, err = claim(ctx, rc.db, key); err != nil || duplicate {
			return duplicate, err
		}
		return false, work(ctx, rc.db, id, workTime)
	case claimLast:
		ctx = context.WithoutCancel(ctx)
		if err := work(ctx, rc.db, id, workTime); err != nil {
			return false, err
		}
		return claim(ctx, rc.db, key)
	case inMemory:
		return rc.remember(context.WithoutCancel(ctx), key, id)
	}
	if rc.fault == slow {
		if err := pause(ctx, slowTime); err != nil {
			return false, err
		}
	}
	tx, err := rc.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, ignoreDone(tx.Rollback())) }()
	if duplicate, err = claim(ctx, tx, key); err != nil || duplicate {
		return duplicate, err
	}
	if rc.fault == worksLater {
		_, err := tx.ExecContext(ctx, "INSERT INTO open (event) VALUES (?)", id)
		return false, errors.Join(err, tx.Commit())
	}
	if err := work(ctx, tx, id, workTime); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

// workLater works on stored events until ctx ends: the work and the end of an event are one
// transaction.
func (rc *receiver) workLater(ctx context.Context) {
	for pause(ctx, workTime) == nil {
		_ = rc.workOnOpen(ctx) // tried again
	}
}

func (rc *receiver) workOnOpen(ctx context.Context) error {
	tx, err := rc.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects SELECT event FROM open"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM open"); err != nil {
		return err
	}
	return tx.Commit()
}

func (rc *receiver) lookThenWork(ctx context.Context, key, id string) (duplicate bool, err error) {
	var n int
	if err := rc.db.QueryRowContext(ctx, "SELECT count(*) FROM seen WHERE key = ?", key).Scan(&n); err != nil || n > 0 {
		return n > 0, err
	}
	if err := work(ctx, rc.db, id, workTime); err != nil {
		return false, err
	}
	_, err = claim(ctx, rc.db, key)
	return false, err
}

// remember keeps the ids in memory. It holds the lock during the work, so that copies wait.
func (rc *receiver) remember(ctx context.Context, key, id string) (duplicate bool, err error) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.ids[key] {
		return true, nil
	}
	if err := work(ctx, rc.db, id, workTime); err != nil {
		return false, err
	}
	rc.ids[key] = true
	return false, nil
}

// execer is a database, or a transaction in it.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// claim stores a key, and reports whether it was there.
func claim(ctx context.Context, db execer, key string) (duplicate bool, err error) {
	result, err := db.ExecContext(ctx, "INSERT INTO seen (key) VALUES (?) ON CONFLICT DO NOTHING", key)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 0, err
}

// work has an effect after a while.
func work(ctx context.Context, db execer, id string, takes time.Duration) error {
	if err := pause(ctx, takes); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "INSERT INTO effects (event) VALUES (?)", id)
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}
