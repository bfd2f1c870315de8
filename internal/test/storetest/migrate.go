package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// ExerciseMigrations applies the steps of the schema through two stores on one database. Each case
// calls open for two stores on a fresh database without a schema.
func ExerciseMigrations(t *testing.T, open func(t *testing.T) (a, b driver.Store)) {
	t.Helper()
	for name, run := range map[string]func(a, b *fixture){
		"Missing":      migrateMissing,
		"Concurrently": migrateConcurrently,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			run(&fixture{T: t, s: a}, &fixture{T: t, s: b})
		})
	}
}

// applied returns the steps of the database.
func (f *fixture) applied() []driver.Migration {
	f.Helper()
	got, err := f.s.Applied(f.Context())
	if err != nil {
		f.Fatalf("Applied: %v", err)
	}
	return got
}

// known returns the steps of the program, as a database has them.
func (f *fixture) known() []driver.Migration {
	all := f.s.Migrations()
	for i := range all {
		all[i].SQL = ""
	}
	return all
}

func migrateMissing(a, b *fixture) {
	same(a, "versions of an empty database", []driver.Migration(nil), a.applied())
	for name, call := range map[string]func(ctx context.Context) error{
		"Claim": func(ctx context.Context) error {
			_, err := a.s.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim("stripe", "evt_1", "{}")}})
			return err
		},
		"Lease": func(ctx context.Context) error {
			_, err := a.s.Lease(ctx, &driver.LeaseParams{Destination: "d", Limit: 1, For: leaseFor, MaxAttempts: 1})
			return err
		},
		"Event":           func(ctx context.Context) error { _, err := a.s.Event(ctx, "stripe", "evt_1"); return err },
		"Events":          func(ctx context.Context) error { _, err := a.s.Events(ctx, &driver.EventFilter{}); return err },
		"Prune":           func(ctx context.Context) error { _, err := a.s.Prune(ctx, windows(day, t0)); return err },
		"RegisterWindows": func(ctx context.Context) error { return a.s.RegisterWindows(ctx, windows(day, t0)) },
	} {
		if err := call(a.Context()); !errors.Is(err, driver.ErrSchema) {
			a.Errorf("%s without a schema: got the error %v, want %v", name, err, driver.ErrSchema)
		}
	}
	steps, err := b.s.Apply(b.Context())
	if err != nil {
		b.Fatalf("Apply: %v", err)
	}
	same(b, "steps applied", b.s.Migrations(), steps)
	a.claimNew(t0, newClaim("stripe", "evt_1", "{}", "billing")) // the other store sees the schema
	b.leaseOne(t0, "to-billing")
}

// migrateConcurrently calls Apply from several callers at once: one of them applies all steps, the
// others block until then and apply none.
func migrateConcurrently(a, b *fixture) {
	const callers = 8
	var (
		group sync.WaitGroup
		took  [callers][]driver.Migration
		errs  [callers]error
	)
	start := make(chan struct{})
	for i := range callers {
		store := []driver.Store{a.s, b.s}[i%2]
		group.Go(func() {
			<-start
			took[i], errs[i] = store.Apply(a.Context())
		})
	}
	close(start)
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		a.Fatalf("Apply: %v", err)
	}
	var all []driver.Migration
	for _, steps := range took {
		all = append(all, steps...)
	}
	same(a, "steps applied by all callers", a.s.Migrations(), all)
	same(a, "applied steps", a.known(), a.applied())
	same(b, "applied steps", b.known(), b.applied())
	b.claimNew(t0, newClaim("stripe", "evt_1", "{}"))
}
