// Command dbos handles webhooks with DBOS Transact (https://docs.dbos.dev), durable workflows on PostgreSQL, so that
// hookonce is measured beside the real thing. The workflows are in their queue before the clock starts. Each writes one
// effect in a transaction that also records it as done: exactly once.
//
//	dbos -database DSN -jobs 20000
//
// It prints one line of JSON: the number of events, and the seconds from the launch until every workflow has succeeded in the
// database. Each run needs an empty database and a superuser.
//
// It is a separate module so that DBOS is no dependency of hookonce.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	queueName   = "webhooks"
	appName     = "bench"
	version     = "1"
	bodySize    = 1200
	enqueuers   = 32
	timeout     = 10 * time.Minute // of the whole run: a run that hangs must fail
	look        = 5 * time.Millisecond
	insertOne   = "INSERT INTO effects (event_id) VALUES ($1)"
	createTable = "CREATE TABLE effects (event_id text NOT NULL, at timestamptz NOT NULL DEFAULT now())"
)

type options struct {
	database    string
	jobs        int
	workers     int
	connections int
	poll        time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.database, "database", "", "`DSN` of an empty database")
	flag.IntVar(&o.jobs, "jobs", 20000, "number of workflows")
	flag.IntVar(&o.workers, "workers", 200, "workflows at a time")
	flag.IntVar(&o.connections, "connections", 50, "size of the pool")
	flag.DurationVar(&o.poll, "poll", 5*time.Millisecond, "the queue's polling interval")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "dbos:", err)
		os.Exit(1)
	}
}

// webhook is the input of a workflow.
type webhook struct {
	EventID string `json:"event_id"`
	Body    string `json:"body"`
}

func run(ctx context.Context, o *options) error {
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
	// The end of the process closes it: DBOS keeps a connection of it for notifications.
	if _, err := pool.Exec(ctx, createTable); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	app, err := dbos.NewContext(ctx, dbos.Config{
		AppName: appName, ApplicationVersion: version, SystemDBPool: pool, Logger: logger,
	})
	if err != nil {
		return err
	}
	// It shares the pool, so one transaction holds the effect and the record of DBOS.
	source, err := dbos.NewDataSource(app, pool)
	if err != nil {
		return err
	}
	handle := func(ctx dbos.Context, event webhook) (bool, error) {
		return dbos.RunAsTransaction(ctx, source, func(ctx context.Context, tx dbos.Tx) (bool, error) {
			_, err := tx.Exec(ctx, insertOne, event.EventID)
			return err == nil, err
		})
	}
	dbos.RegisterWorkflow(app, handle, dbos.WithWorkflowName("handle"))
	if _, err := dbos.RegisterQueue(app, queueName, dbos.WithWorkerConcurrency(o.workers), dbos.WithQueueBasePollingInterval(o.poll)); err != nil {
		return err
	}
	if err := prepare(ctx, pool, logger, o.jobs); err != nil {
		return err
	}
	began := time.Now()
	if err := dbos.Launch(app); err != nil {
		return err
	}
	if err := wait(ctx, pool, o.jobs); err != nil {
		return err
	}
	took := time.Since(began)
	if err := check(ctx, pool, o.jobs); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(struct {
		Events  int     `json:"events"`
		Seconds float64 `json:"seconds"`
	}{o.jobs, took.Seconds()})
}

// prepare fills the queue.
func prepare(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, jobs int) error {
	client, err := dbos.NewClient(ctx, dbos.ClientConfig{AppName: appName, SystemDBPool: pool, Logger: logger})
	if err != nil {
		return err
	}
	body := strings.Repeat("0123456789ab", bodySize/12)
	var all errgroup.Group
	all.SetLimit(enqueuers)
	for i := range jobs {
		all.Go(func() error {
			id := fmt.Sprint("evt_", i)
			_, err := dbos.Enqueue[bool](client, queueName, "handle", webhook{EventID: id, Body: body},
				dbos.WithEnqueueWorkflowID(id), dbos.WithEnqueueApplicationVersion(version))
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	// A queue that has run for a while has statistics, and its rows are on disk.
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE dbos.workflow_status"); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "CHECKPOINT")
	return err
}

const countDone = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"

// wait waits until all workflows have succeeded. It looks rarely before the effects are there.
func wait(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	pause := 20 * look
	for {
		var effects, done int
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM effects").Scan(&effects); err != nil {
			return err
		}
		if effects >= jobs {
			pause = look
			if err := pool.QueryRow(ctx, countDone).Scan(&done); err != nil || done >= jobs {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d effects after %s", effects, jobs, timeout)
		case <-time.After(pause):
		}
	}
}

// check fails if an effect or a workflow is missing or duplicated.
func check(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	var effects, events, done int
	if err := pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT event_id) FROM effects").Scan(&effects, &events); err != nil {
		return err
	}
	if err := pool.QueryRow(ctx, countDone).Scan(&done); err != nil {
		return err
	}
	if effects != jobs || events != jobs || done != jobs {
		return fmt.Errorf("%d effects of %d events and %d workflows that succeeded, want %d of each", effects, events, done, jobs)
	}
	return nil
}
