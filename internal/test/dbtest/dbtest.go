// Package dbtest gives tests a real PostgreSQL.
//
// All test binaries that run at a time share one server, started when the first test asks for it, and each test has a
// schema of its own on it. Call Main from TestMain, then Ready or Postgres from tests:
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
//
//	dsn, schema := dbtest.Ready(t)
//
// The environment variable HOOKONCE_TEST_POSTGRES may name a server by its DSN. Without it, the
// package starts an installed server in a temporary folder, on a free port of 127.0.0.1. The server
// stops a few seconds after the last test binary, even if that is killed. On Debian and Ubuntu, as root, the package
// installs PostgreSQL with apt-get if it is missing. A test never skips because of a missing
// server: it fails and says what to install.
//
// Tests that harm a server start a private one with StartServer; tests that harm a connection put a
// Proxy in front.
package dbtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// Environment names the variable that may hold the DSN of a server.
const Environment = "HOOKONCE_TEST_POSTGRES"

// shared is the server of this test binary.
var shared struct {
	inMain bool // set by Run, before any test runs
	start  sync.Once
	leave  func() // nil if Environment is set
	dsn    string
	err    error
}

// Main runs the tests of a package, and ends the process.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for packages with work to do after their tests: it returns the exit code.
func Run(m interface{ Run() int }) (code int) {
	shared.inMain = true
	code = m.Run()
	if err := leaveServer(); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		code = max(code, 1)
	}
	return code
}

// leaveServer ends this test binary's use of the server.
func leaveServer() error {
	shared.start.Do(func() {}) // no test can start it from here on
	var err error
	for _, clear := range shelves.clear {
		err = errors.Join(err, clear())
	}
	err = errors.Join(err, ready.close(shared.leave != nil))
	if shared.leave != nil {
		shared.leave()
	}
	return err
}

// server returns the DSN of a running server.
func server(t testing.TB) string {
	t.Helper()
	if !shared.inMain {
		t.Fatal("dbtest: TestMain must call dbtest.Main or dbtest.Run")
	}
	if join(); shared.err != nil {
		t.Fatalf("dbtest: %v", shared.err)
	}
	return shared.dsn
}

// join finds or starts the server of this test binary, once.
func join() {
	shared.start.Do(func() {
		if shared.dsn = os.Getenv(Environment); shared.dsn == "" {
			shared.dsn, shared.leave, shared.err = joinServer(keeperFolder())
		}
	})
}

// template returns the folder with the files of a new server, or "" without a server of ours.
func template() string {
	if join(); shared.leave == nil {
		return ""
	}
	folder, err := os.ReadFile(templateFile(keeperFolder()))
	if err != nil {
		return ""
	}
	return string(folder)
}

// Postgres returns the DSN of a running server and the name of a schema on it that does not exist
// yet and that only this test uses. The schema is dropped when the test ends.
func Postgres(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn = server(t)
	schema = "test_" + randomHex(8)
	t.Cleanup(func() {
		if err := dropSchema(dsn, schema); err != nil {
			t.Errorf("dbtest: dropping the test's schema: %v", err)
		}
	})
	return dsn, schema
}

func dropSchema(dsn, schema string) error {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// A session that the test left open must not block the whole run.
	if _, err := conn.Exec(ctx, "SET lock_timeout = '20s'"); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return err
}

func randomHex(n int) string {
	buf := make([]byte, n)
	rand.Read(buf) // never fails
	return hex.EncodeToString(buf)
}
