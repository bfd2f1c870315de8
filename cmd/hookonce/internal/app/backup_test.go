package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// migrated makes a SQLite database in a folder of its own.
func migrated(t *testing.T) (*config.Settings, driver.Store) {
	t.Helper()
	settings := &config.Settings{Database: "sqlite:" + filepath.Join(t.TempDir(), "hookonce.db")}
	return settings, opened(t, settings)
}

func opened(t *testing.T, settings *config.Settings) driver.Store {
	t.Helper()
	store, err := CreateStore(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := Migrate(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store
}

func claimed(ctx context.Context, store driver.Store, id string) error {
	body := []byte(strings.Repeat(id, 500))
	c := driver.Claim{
		Key: driver.EventKey("lab", id), Source: "lab", EventID: id, Headers: []byte("{}"), Body: body, BodyHash: sha256.Sum256(body),
	}
	_, err := store.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{c}})
	return err
}

// A backup that is made between claims has all that were committed before it began, and is whole.
func TestBackupBesideClaims(t *testing.T) {
	t.Parallel()
	settings, store := migrated(t)
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var committed []string
	ended := make(chan error, 1)
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			id := fmt.Sprint("evt_", i)
			if err := claimed(ctx, store, id); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
			mu.Lock()
			committed = append(committed, id)
			mu.Unlock()
		}
		ended <- nil
	}()
	number := func() int { mu.Lock(); defer mu.Unlock(); return len(committed) }
	for n := range 3 {
		eventually.True(t, "claims go on", func() bool { return number() > 20*(n+1) })
		before := number()
		copied := &config.Settings{Database: fmt.Sprintf("sqlite:%s/%d.db", t.TempDir(), n)}
		file, _ := copied.SQLitePath()
		if err := Backup(t.Context(), settings, file); err != nil {
			t.Fatal(err)
		}
		other := opened(t, copied)
		mu.Lock()
		ids := committed[:before-1] // the last one may have been cancelled
		mu.Unlock()
		for _, id := range ids {
			if _, err := other.Event(t.Context(), "lab", id); err != nil {
				t.Fatalf("%s was committed before the backup, which does not have it: %v", id, err)
			}
		}
	}
	stop()
	if err := eventually.Receive(t, "the claims end", ended); err != nil {
		t.Error(err)
	}
}

// Ids are not carried from under a gateway: it may claim more.
func TestCarryRefusesAGateway(t *testing.T) {
	t.Parallel()
	from, _ := migrated(t)
	_, to := migrated(t)
	path, _ := from.SQLitePath()
	lock, err := lockDatabase(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = CarryIDs(t.Context(), from, to, func(Carried) {})
	if failed := new(Error); !errors.As(err, &failed) || !strings.Contains(err.Error(), "another gateway") {
		t.Errorf("CarryIDs beside a gateway: %v", err)
	}
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	if _, err := CarryIDs(t.Context(), from, to, func(Carried) {}); err != nil {
		t.Error(err)
	}
}
