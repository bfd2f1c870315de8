// Command river handles webhooks with River (https://riverqueue.com), the usual PostgreSQL job
// queue for Go programs, so that hookonce is measured beside the real thing. The jobs are in the
// table before the clock starts; each writes one effect.
//
//	river -database DSN -jobs 20000 -mode tx
//
// It prints one line of JSON: the number of events, and the seconds from the start of River's
// client until every completion is in the database. Each run needs an empty database and a
// superuser.
//
// It is a separate module so that River is no dependency of hookonce.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	modeTx    = "tx"    // one transaction holds the effect and River's mark that the job is completed: exactly once
	modeAfter = "after" // the effect first, then River's own mark, written for many jobs at once: at least once

	insertBatch = 5000
	bodySize    = 1200
	timeout     = 10 * time.Minute // of the whole run: a run that hangs must fail
)

// River's best settings here, judged by its rate and by the processor time of River and PostgreSQL
// together, on two cores with fsync on.
//
//   - tx: with 25, 50, 100, 200 and 500 workers the rates differ no more than from run to run. 200
//     took the least processor time. 100 connections take a tenth more of it than 50; 25 are as
//     good.
//   - after: 100 workers finish a third fewer jobs than 500, and 1,000 a tenth more than 500; 2,000
//     are no better.
//   - With 1, 2, 10 and 20 ms between fetches the rates are the same. River's own benchmark uses 2
//     ms and a poll every 20 ms; its defaults, 100 ms and 1 s, would limit the rate.
const (
	connections = 50
	cooldown    = 2 * time.Millisecond
	poll        = 20 * time.Millisecond
)

var workersOf = map[string]int{modeTx: 200, modeAfter: 1000}

type options struct {
	database    string
	mode        string
	jobs        int
	workers     int
	connections int
	cooldown    time.Duration
	poll        time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.database, "database", "", "`DSN` of an empty database")
	flag.StringVar(&o.mode, "mode", modeTx, "tx: exactly once, by JobCompleteTx; after: at least once, by River's batch completer")
	flag.IntVar(&o.jobs, "jobs", 20000, "number of jobs")
	flag.IntVar(&o.workers, "workers", 0, "jobs worked at a time (default: the best for the mode)")
	flag.IntVar(&o.connections, "connections", connections, "size of the pool")
	flag.DurationVar(&o.cooldown, "cooldown", cooldown, "River's FetchCooldown")
	flag.DurationVar(&o.poll, "poll", poll, "River's FetchPollInterval")
	flag.Parse()
	if o.workers == 0 {
		o.workers = workersOf[o.mode]
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	if o.mode != modeTx && o.mode != modeAfter {
		return fmt.Errorf("mode is %q, want %s or %s", o.mode, modeTx, modeAfter)
	}
	config, err := pgxpool.ParseConfig(o.database)
	if err != nil {
		return err
	}
	config.MaxConns = int32(o.connections)
	config.MinConns = config.MaxConns // connecting is not part of the measurement
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	w := &worker{pool: pool, inTx: o.mode == modeTx, all: make(chan struct{})}
	w.left.Store(int64(o.jobs))
	client, err := newClient(w, o)
	if err != nil {
		return err
	}
	if err := prepare(ctx, pool, client, o.jobs); err != nil {
		return err
	}
	took, err := measure(ctx, client, w)
	if err != nil {
		return err
	}
	if err := check(ctx, pool, o.jobs); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(struct {
		Events  int     `json:"events"`
		Seconds float64 `json:"seconds"`
	}{o.jobs, took.Seconds()})
}

func newClient(w *worker, o *options) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	return river.NewClient(riverpgxv5.New(w.pool), &river.Config{
		FetchCooldown:     o.cooldown,
		FetchPollInterval: o.poll,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: o.workers}},
		Workers:           workers,
	})
}

// prepare creates the tables and fills the queue.
func prepare(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], jobs int) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE effects (event_id text NOT NULL, at timestamptz NOT NULL DEFAULT now())"); err != nil {
		return err
	}
	body := strings.Repeat("0123456789ab", bodySize/12)
	for first := 0; first < jobs; first += insertBatch {
		var batch []river.InsertManyParams
		for i := first; i < min(first+insertBatch, jobs); i++ {
			batch = append(batch, river.InsertManyParams{Args: webhook{EventID: fmt.Sprint("evt_", i), Body: body}})
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
	}
	// A queue that has run for a while has statistics, and its rows are on disk.
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE river_job"); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "CHECKPOINT")
	return err
}

// measure returns the time until all jobs are worked and completed.
func measure(ctx context.Context, client *river.Client[pgx.Tx], w *worker) (time.Duration, error) {
	start := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	select {
	case <-w.all:
	case <-ctx.Done():
		return 0, errors.New("the jobs were not worked in time")
	}
	took := time.Since(start)
	// The completer holds the last few completions for up to 250 ms to batch them. That says
	// nothing about its throughput, and Stop makes it write them at once.
	if err := client.Stop(ctx); err != nil {
		return 0, err
	}
	if !w.inTx {
		took = time.Since(start)
	}
	return took, nil
}

// check fails if an effect or a completion is missing or duplicated.
func check(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	var effects, events, completed, others int
	if err := pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT event_id) FROM effects").Scan(&effects, &events); err != nil {
		return err
	}
	const states = "SELECT count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state <> 'completed') FROM river_job"
	if err := pool.QueryRow(ctx, states).Scan(&completed, &others); err != nil {
		return err
	}
	if effects != jobs || events != jobs || completed != jobs || others != 0 {
		return fmt.Errorf("%d effects of %d events, %d jobs completed and %d not, want %d of each and 0 not completed",
			effects, events, completed, others, jobs)
	}
	return nil
}

// webhook is the job that a program with River would enqueue for a webhook.
type webhook struct {
	EventID string `json:"event_id"`
	Body    string `json:"body"`
}

// Kind is River's name for such jobs.
func (webhook) Kind() string { return "webhook" }

// worker writes one effect for each job.
type worker struct {
	river.WorkerDefaults[webhook]
	pool *pgxpool.Pool
	inTx bool
	left atomic.Int64
	all  chan struct{} // closed when no job is left
}

const insertEffect = "INSERT INTO effects (event_id) VALUES ($1)"

// Work works one job.
func (w *worker) Work(ctx context.Context, job *river.Job[webhook]) error {
	var err error
	if w.inTx {
		err = pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insertEffect, job.Args.EventID); err != nil {
				return err
			}
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
	} else {
		_, err = w.pool.Exec(ctx, insertEffect, job.Args.EventID)
	}
	if err == nil && w.left.Add(-1) == 0 {
		close(w.all)
	}
	return err
}
