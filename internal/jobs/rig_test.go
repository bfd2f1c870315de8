package jobs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/jobs"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// childDSN and childSchema make the test binary a process that works on jobs; see TestKilledProcess.
const (
	childDSN    = "HOOKONCE_TEST_JOBS_DSN"
	childSchema = "HOOKONCE_TEST_JOBS_SCHEMA"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childDSN); dsn != "" {
		child(dsn, os.Getenv(childSchema))
		return
	}
	dbtest.Parallel(8) // many wait
	dbtest.Main(m)
}

// child works on jobs until it is killed.
func child(dsn, schema string) {
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		panic(err)
	}
	store, err := hookpgx.NewWithOptions(pool, &hookpgx.Options{Schema: schema})
	if err != nil {
		panic(err)
	}
	newRunner(store, &rig.Log{}).Run(context.Background())
}

func openPostgres(t *testing.T) (store *hookpgx.Store, dsn, schema string) {
	t.Helper()
	dsn, schema = dbtest.Ready(t)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if store, err = hookpgx.NewWithOptions(pool, &hookpgx.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, dsn, schema
}

// execute runs SQL. There {schema} stands for the schema.
func execute(t *testing.T, dsn, schema, sql string) {
	t.Helper()
	query(t, dsn, schema, sql)
}

// query is execute with a row.
func query(t *testing.T, dsn, schema, sql string, row ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	sql = strings.ReplaceAll(sql, "{schema}", schema)
	if len(row) == 0 {
		_, err = conn.Exec(t.Context(), sql)
	} else {
		err = conn.QueryRow(t.Context(), sql).Scan(row...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newRunner returns a runner whose rates are numbers of rows a second.
func newRunner(store driver.Store, log *rig.Log) *jobs.Runner {
	return jobs.New(store, jobs.Options{
		Replay: func(ctx context.Context, source, eventID string, how *jobs.How) (bool, error) {
			replayed, err := store.Replay(ctx, &driver.ReplayParams{
				Key: driver.EventKey(source, eventID), Mode: how.Mode, To: how.To, Note: how.Note, RequestID: how.RequestID,
			})
			return err == nil && replayed.Stayed, err
		},
		Pace: func(spec *driver.JobSpec) (*limit.Bucket, error) {
			n, err := strconv.Atoi(spec.Rate)
			if spec.Rate == "" {
				n, err = 1_000_000, nil
			}
			return limit.NewPace(n, time.Second), err
		},
		Worked: func(string, []driver.DeadLetter) {},
		Owner:  "test",
		Log:    log.Logger(),
	})
}

// run runs a runner until the test ends or stop is called.
func run(t *testing.T, store driver.Store) (r *jobs.Runner, log *rig.Log, stop func()) {
	t.Helper()
	log = &rig.Log{}
	r = newRunner(store, log)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return r, log, stop
}

// die claims n events with one message each, and makes the messages dead.
func die(t *testing.T, store driver.Store, prefix string, n int) []driver.Claim {
	t.Helper()
	var all []driver.Claim
	for i := range n {
		id := fmt.Sprintf("%s%04d", prefix, i)
		key := driver.EventKey("shop", id)
		all = append(all, driver.Claim{
			Key: key, Source: "shop", EventID: id, Headers: []byte("{}"), Body: []byte(id), BodyHash: sha256.Sum256([]byte(id)),
			Messages: []driver.NewMessage{{ID: driver.MessageID(key, 0, "billing"), Route: "billing", Destination: "billing"}},
		})
	}
	slices.SortFunc(all, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	for chunk := range slices.Chunk(all, 200) {
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: chunk}); err != nil {
			t.Fatal(err)
		}
	}
	for left := n; left > 0; {
		died := killDue(t, store)
		if died == 0 {
			t.Fatalf("%d messages are not due", left)
		}
		left -= died
	}
	return all
}

// killDue makes due messages dead, and returns how many.
func killDue(t *testing.T, store driver.Store) int {
	t.Helper()
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "billing", Limit: 200, For: time.Hour, MaxAttempts: 5})
	if err != nil {
		t.Fatal(err)
	}
	p := &driver.CompleteParams{}
	for _, m := range leased.Messages {
		p.Completions = append(p.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "gone"})
	}
	if _, err := store.Complete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return len(leased.Messages)
}

// start stores a job that runs.
func start(t *testing.T, store driver.Store, id string, spec driver.JobSpec, sel driver.JobSelection) {
	t.Helper()
	filter, err := json.Marshal(sel)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Filter == "" {
		spec.Filter = string(filter)
	}
	if spec.Of == "" {
		spec.Of = driver.JobOfDeadLetters
	}
	if _, err := store.AddJob(t.Context(), &driver.AddJobParams{ID: id, JobSpec: spec, Plan: "{}", Start: true}); err != nil {
		t.Fatal(err)
	}
}

func job(t *testing.T, store driver.Store, id string) *driver.Job {
	t.Helper()
	got, err := store.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// until waits until a job is as wanted, and returns it.
func until(t *testing.T, store driver.Store, id string, wanted func(*driver.Job) bool) *driver.Job {
	t.Helper()
	var got *driver.Job
	eventually.True(t, "job "+id+" is as wanted", func() bool {
		got = job(t, store, id)
		return wanted(got)
	})
	return got
}

func isEnded(j *driver.Job) bool { return j.State == driver.JobDone || j.State == driver.JobFailed }

// refuseLetters has a trigger refuse changes of some letters, or of all without any, for a reason that may concern all.
func refuseLetters(t *testing.T, dsn, schema string, letters ...driver.Claim) {
	t.Helper()
	when, keys := "", make([]string, len(letters))
	for i := range letters {
		keys[i] = fmt.Sprintf(`'\x%x'`, letters[i].Key)
	}
	if len(keys) > 0 {
		when = "WHEN (NEW.event_key IN (" + strings.Join(keys, ",") + "))"
	}
	execute(t, dsn, schema, `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'no right' USING ERRCODE = '42501'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.message FOR EACH ROW `+when+` EXECUTE FUNCTION {schema}.refuse()`)
}

// wantOnce fails unless the history of each event has one entry, with the action, by the job.
func wantOnce(t *testing.T, store driver.Store, all []driver.Claim, action, job string) {
	t.Helper()
	for i := range all {
		ev, err := store.Event(t.Context(), "shop", all[i].EventID)
		if err != nil {
			t.Fatal(err)
		}
		if len(ev.History) != 1 || ev.History[0].Action != action || ev.History[0].RequestID != job {
			t.Errorf("the history of %s is %+v, want it %s once by %s", all[i].EventID, ev.History, action, job)
		}
	}
}

// faulty is a store whose steps with letters fail a number of times, before or after their commit.
type faulty struct {
	driver.Store
	before, after int
}

var errInjected = fmt.Errorf("%w: injected", driver.ErrUnavailable)

func (f *faulty) StepJob(ctx context.Context, p *driver.JobStep) (bool, []bool, error) {
	if len(p.Letters) > 0 && f.before > 0 {
		f.before--
		return false, nil, errInjected
	}
	held, done, err := f.Store.StepJob(ctx, p)
	if len(p.Letters) > 0 && f.after > 0 && err == nil {
		f.after--
		return false, nil, errors.Join(driver.ErrCommitUnknown, errInjected)
	}
	return held, done, err
}

// noForesight is for plans whose counts alone matter.
func noForesight(context.Context, []driver.Event, *jobs.Tally) error { return nil }
