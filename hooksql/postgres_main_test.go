package hooksql_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// withPostgres runs tests that may ask for a PostgreSQL server, and stops it.
type withPostgres struct{ m *testing.M }

func (w withPostgres) Run() int { return dbtest.Run(w.m) }

// spawner is the goroutine that started the server; it lives as long as the process.
func spawner() goleak.Option {
	return goleak.IgnoreTopFunction("github.com/hookonce/hookonce/internal/test/dbtest.spawn")
}
