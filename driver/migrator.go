package driver

import "context"

// Migration is one step of the schema.
type Migration struct {
	Version int // from 1, without gaps
	Name    string
	SQL     string
}

// Migrator is the part of a store that package hookmigrate needs.
type Migrator interface {
	// Migrations returns the steps that this program knows, in order.
	Migrations() []Migration
	// Applied returns the versions of the database's schema, in order; none for an empty database.
	Applied(ctx context.Context) ([]int, error)
	// Apply brings the schema to the newest version in one transaction and returns the steps that
	// it took. It takes a lock, so concurrent callers wait. It skips steps that were applied
	// before.
	Apply(ctx context.Context) ([]Migration, error)
}
