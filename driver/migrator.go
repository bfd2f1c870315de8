package driver

import (
	"context"
	"fmt"
	"slices"
)

// Migration is one step of the schema.
type Migration struct {
	Version int // from 1, without gaps
	Name    string
	SQL     string
	// Hash identifies the text of the step. The step records it, so that a database tells which build made
	// it: until the first release, steps are edited.
	Hash string
}

// IndexStep returns the index of the step of a version, or -1.
func IndexStep(steps []Migration, version int) int {
	return slices.IndexFunc(steps, func(m Migration) bool { return m.Version == version })
}

// CheckApplied returns an error that matches ErrSchema if a database has a step that is not known, or
// that another build made. Missing steps are no fault.
func CheckApplied(known, applied []Migration) error {
	for _, step := range applied {
		i := IndexStep(known, step.Version)
		if i < 0 {
			return fmt.Errorf("%w: it has step %d, which this program does not know: upgrade hookonce", ErrSchema, step.Version)
		}
		if known[i].Hash != step.Hash {
			return fmt.Errorf("%w: its step %d (%s) was made by another build; "+
				"it is not upgradable before the first release: use that build, or an empty database", ErrSchema, step.Version, step.Name)
		}
	}
	return nil
}

// CheckSchema is CheckApplied, and refuses missing steps, too.
func CheckSchema(known, applied []Migration) error {
	if err := CheckApplied(known, applied); err != nil {
		return err
	}
	for _, step := range known {
		if IndexStep(applied, step.Version) < 0 {
			return fmt.Errorf("%w: step %d (%s) has not been applied: run \"hookonce migrate up\"",
				ErrSchema, step.Version, step.Name)
		}
	}
	return nil
}

// Migrator is the part of a store that package hookmigrate needs.
type Migrator interface {
	// Migrations returns the steps that this program knows, in order.
	Migrations() []Migration
	// Applied returns the steps that the database has, in order, without their SQL; none for an empty
	// database. Hash is "" where it was not recorded.
	Applied(ctx context.Context) ([]Migration, error)
	// Apply brings the schema to the newest version in one transaction and returns the steps that
	// it took. It takes a lock, so concurrent callers wait. It skips steps that were applied
	// before.
	Apply(ctx context.Context) ([]Migration, error)
}
