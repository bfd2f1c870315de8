package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the driver of SQLite files

	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooksql"
)

// folderOf returns the folder for measuring SQLite; false for another database.
func folderOf(database string) (folder string, isSQLite bool) {
	if database == "" {
		return os.TempDir(), true
	}
	path, isSQLite := strings.CutPrefix(database, "sqlite:")
	return filepath.Dir(path), isSQLite
}

// onSQLite measures in a new folder below folder.
func (m *meter) onSQLite(ctx context.Context, folder string) (err error) {
	m.sqlite = true
	dir, err := os.MkdirTemp(folder, "hookonce-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m.report.Database = "sqlite:" + filepath.Join(folder, "…")
	m.began("fsync")
	if err := m.fsync(ctx, dir); err != nil {
		return fmt.Errorf("measuring fsync: %w", err)
	}
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(dir, "hookonce.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := hookmigrate.Up(ctx, store); err != nil {
		return err
	}
	return measureStore(ctx, m, store)
}

// fsync measures writes of 4 KiB, each with its fsync.
func (m *meter) fsync(ctx context.Context, dir string) error {
	file, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return err
	}
	defer file.Close()
	block := make([]byte, 4096)
	at := int64(0)
	f, err := m.oneByOne(ctx, func() error {
		at += int64(len(block))
		_, err := file.WriteAt(block, at%(1<<20))
		return errors.Join(err, file.Sync())
	})
	if err != nil {
		return err
	}
	f.Name, f.Unit, f.Bound = "fsync", "fsyncs", "the disk"
	if f.Median < noDisk.Seconds() {
		f.Bound = "nothing: no disk is behind this folder; try --database sqlite:PATH"
	}
	m.report.Figures = append(m.report.Figures, *f)
	return nil
}

// oneByOne measures an action that is repeated without a pause.
func (m *meter) oneByOne(ctx context.Context, action func() error) (*Figure, error) {
	var took []time.Duration
	began := time.Now()
	for time.Since(began) < m.share(0.05) || len(took) == 0 {
		start := time.Now()
		if err := errors.Join(ctx.Err(), action()); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	f := &Figure{PerSecond: float64(len(took)) / time.Since(began).Seconds()}
	f.Median, f.P99 = quantilesOf(took)
	return f, nil
}

// onPostgres measures in a schema of its own.
func (m *meter) onPostgres(ctx context.Context, url string) (err error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return errors.New("it is not a PostgreSQL URL that can be used") // the driver's error may quote a password
	}
	schema := "hookonce_bench_" + strings.ToLower(rand.Text()[:12])
	m.report.Database = fmt.Sprintf("postgres://%s:%d/%s, schema %s", cfg.ConnConfig.Host, cfg.ConnConfig.Port, cfg.ConnConfig.Database, schema)
	hookpgx.WatchCommits(cfg.ConnConfig)
	store, err := hookpgx.Open(cfg, &hookpgx.Options{Schema: schema})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(), drop(ctx, cfg, schema)) }()
	if _, err := hookmigrate.Up(ctx, store); err != nil {
		return err
	}
	if err := m.roundTrips(ctx, cfg, schema); err != nil {
		return err
	}
	return measureStore(ctx, m, store)
}

// roundTrips measures the shortest statement and the shortest commit on one connection.
func (m *meter) roundTrips(ctx context.Context, cfg *pgxpool.Config, schema string) error {
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	table := pgx.Identifier{schema, "bench_commit"}.Sanitize()
	if _, err := conn.Exec(ctx, "CREATE TABLE "+table+" (n int)"); err != nil {
		return err
	}
	for _, step := range []struct{ name, unit, bound, statement string }{
		{"round trip", "statements", "the network and the server", "SELECT 1"},
		{"commit", "commits", "a round trip and the server's fsync", "INSERT INTO " + table + " VALUES (1)"},
	} {
		m.began(step.name)
		f, err := m.oneByOne(ctx, func() error {
			_, err := conn.Exec(ctx, step.statement)
			return err
		})
		if err != nil {
			return fmt.Errorf("measuring %s: %w", step.name, err)
		}
		f.Name, f.Unit, f.Bound = step.name, step.unit, step.bound
		m.report.Figures = append(m.report.Figures, *f)
	}
	return nil
}

// drop drops the schema, also after ctx has ended.
func drop(ctx context.Context, cfg *pgxpool.Config, schema string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err == nil {
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	}
	if err != nil {
		return fmt.Errorf("the schema %s is still there, drop it: %w", schema, err)
	}
	return nil
}
