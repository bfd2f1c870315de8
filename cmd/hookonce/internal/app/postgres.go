package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
)

// pooledStore closes the pool of a store after the store.
type pooledStore struct {
	driver.Store
	pool *pgxpool.Pool
}

func (s *pooledStore) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

// CheckPostgres refuses a PostgreSQL URL that the driver cannot parse. It does not connect. The
// error is an *Error that never quotes the URL.
func CheckPostgres(url string) error {
	_, err := parsePostgres(url)
	return err
}

func parsePostgres(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The driver's error may quote a part of the password if that part cannot be parsed.
		return nil, &Error{
			Err:    errors.New("it is not a PostgreSQL URL that can be used"),
			Remedy: "postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require, with other characters of USER and PASSWORD percent-encoded",
		}
	}
	return cfg, nil
}

// workSettings are settings of the pool for leases, outcomes and pruning, unless the URL has its
// own. A frozen or disconnected gateway must not hold its locks for hours, nor keep an abandoned
// statement running. The server rolls back the interrupted work, and the gateway retries it.
var workSettings = map[string]string{
	"application_name":                    "hookonce",
	"idle_in_transaction_session_timeout": "60s",
	"statement_timeout":                   "60s",
	"lock_timeout":                        "5s",
}

func openPostgres(ctx context.Context, settings *config.Settings) (driver.Store, error) {
	cfg, err := parsePostgres(settings.Database)
	if err != nil {
		return nil, fmt.Errorf("the setting database: %w", err)
	}
	for name, value := range workSettings {
		if cfg.ConnConfig.RuntimeParams[name] == "" {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	store, err := hookpgx.NewWithOptions(pool, nil)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return &pooledStore{store, pool}, nil
}
