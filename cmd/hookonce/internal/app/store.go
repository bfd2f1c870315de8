package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
)

const (
	// awaitLimit is how long serve waits for an unavailable database: orchestrators start databases
	// and gateways at the same time.
	awaitLimit = 30 * time.Second
	awaitPause = time.Second
	awaitSaid  = 10 * time.Second // between log lines
	// reachTimeout bounds one attempt to reach the database.
	reachTimeout = 5 * time.Second
	// closeLimit bounds closing the store: a pool waits for every connection in use, and one may
	// hang.
	closeLimit = 2 * time.Second
)

// OpenStore opens the database of the settings for a command that runs beside a gateway. The
// database must exist; its schema is never changed. The caller closes the store.
func OpenStore(ctx context.Context, settings *config.Settings) (driver.Store, error) {
	if path, ok := settings.SQLitePath(); ok {
		if err := checkSQLiteFile(path); err != nil {
			return nil, err
		}
	}
	return openStore(ctx, settings)
}

// CreateStore is OpenStore, but creates a missing SQLite file.
func CreateStore(ctx context.Context, settings *config.Settings) (driver.Store, error) {
	if path, ok := settings.SQLitePath(); ok {
		if err := createFile(path); err != nil {
			return nil, err
		}
		if err := checkSQLiteFile(path); err != nil && !errors.Is(err, errEmpty) && !errors.Is(err, errNotWAL) {
			return nil, err
		}
	}
	return openStore(ctx, settings)
}

// Reach checks that a PostgreSQL answers at the url of --database, for a command that makes a database or
// a schema there.
func Reach(ctx context.Context, url string) error {
	store, err := openStore(ctx, &config.Settings{Database: url})
	if failed, is := errors.AsType[*Error](err); is {
		return &Error{Err: failed.Err, Remedy: strings.ReplaceAll(failed.Remedy, "the setting database", "--database")}
	}
	if err != nil {
		return err
	}
	return closeStore(store)
}

// openStore opens the database and checks that it is reachable.
func openStore(ctx context.Context, settings *config.Settings) (driver.Store, error) {
	open := openPostgres
	if _, ok := settings.SQLitePath(); ok {
		open = openSQLite
	}
	store, err := open(ctx, settings)
	if err != nil {
		return nil, err
	}
	within := reachTimeout + settings.DatabasePassword.Timeout
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := store.Now(ctx); err != nil {
		return nil, errors.Join(&Error{
			Err:    &unreachable{settings.DatabaseDisplay(), within, err},
			Remedy: cmp.Or(lastingRemedy(err), connectRemedy(err), passingRemedy(err), "check that it runs there and accepts writes, and the setting database"),
		}, closeStore(store))
	}
	return store, nil
}

// unreachable is the error of a database that does not answer. Its text has the cause alone: the driver
// repeats the addresses, on several lines.
type unreachable struct {
	database string // without a password
	within   time.Duration
	err      error
}

// Error implements error.
func (e *unreachable) Error() string { return "reaching the database " + e.database + ": " + e.cause() }

// Unwrap returns the error of the store.
func (e *unreachable) Unwrap() error { return e.err }

func (e *unreachable) cause() string {
	switch {
	case errors.Is(e.err, driver.ErrReadOnlyRole):
		return "the role is read-only there: default_transaction_read_only is on for it, its database or its sessions"
	case errors.Is(e.err, driver.ErrStandby):
		return "the server that answers is a standby"
	case errors.Is(e.err, driver.ErrReadOnly):
		return "the server that answers is read-only"
	}
	if refused, is := refusalOf(e.err); is {
		return refused.Error()
	}
	if lookup, is := errors.AsType[*net.DNSError](e.err); is {
		return lookup.Err
	}
	if call, is := errors.AsType[*os.SyscallError](e.err); is {
		return call.Err.Error()
	}
	if errors.Is(e.err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", e.within)
	}
	return strings.Join(strings.Fields(e.err.Error()), " ")
}

// awaitStore is CreateStore for serve. It retries while the database is unavailable, until
// awaitLimit is over, unless retrying cannot help.
func awaitStore(ctx context.Context, settings *config.Settings, log *slog.Logger) (driver.Store, error) {
	deadline, said := time.Now().Add(awaitLimit), time.Time{}
	for {
		store, err := CreateStore(ctx, settings)
		if err == nil || !mayHeal(err) || time.Now().Add(awaitPause).After(deadline) {
			return store, err
		}
		if time.Since(said) >= awaitSaid {
			said = time.Now()
			// The driver reports every address on a separate line.
			log.Warn("waiting for the database", "until", deadline.UTC().Format(time.RFC3339),
				"error", strings.Join(strings.Fields(err.Error()), " "), "try", hintOf(err))
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func hintOf(err error) string {
	failed, _ := errors.AsType[*Error](err)
	if failed == nil {
		return ""
	}
	return failed.Remedy
}

func mayHeal(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) && lastingRemedy(err) == "" && connectRemedy(err) == ""
}

var errStillInUse = errors.New("a connection to the database did not close")

// closeStore closes store. After closeLimit it gives up and returns errStillInUse: a connection
// that no longer answers ends with the process.
func closeStore(store driver.Store) error {
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeLimit):
		return errStillInUse
	}
}
