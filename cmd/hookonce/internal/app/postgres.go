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

func openPostgres(_ context.Context, settings *config.Settings) (driver.Store, error) {
	cfg, err := parsePostgres(settings.Database)
	if err != nil {
		return nil, fmt.Errorf("the setting database: %w", err)
	}
	hookpgx.WatchCommits(cfg.ConnConfig)
	store, err := hookpgx.Open(cfg, &hookpgx.Options{Schema: settings.Schema})
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return store, nil
}
