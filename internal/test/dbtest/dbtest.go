// Package dbtest gives tests a real PostgreSQL.
//
// Each test binary has one server, started when the first test asks for it,
// and each test a schema of its own on it. Call Main from TestMain, then
// Postgres from tests:
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
//
//	dsn, schema := dbtest.Postgres(t)
//
// The server is the one that the environment variable HOOKONCE_TEST_POSTGRES
// names by its DSN. Without it, one is started from what is installed, in a
// temporary folder, on a free port of 127.0.0.1, and stopped with the test
// binary, even where that is killed. On Debian and Ubuntu, run as root,
// PostgreSQL is installed with apt-get if there is none. A test never skips
// for want of a server: it fails and says what to install.
//
// Tests that hurt a server start a private one with StartServer, and those
// that hurt a connection put a Proxy in front.
package dbtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Environment is the variable that may hold the DSN of a server to use.
const Environment = "HOOKONCE_TEST_POSTGRES"

// shared is the server of this test binary.
var shared struct {
	inMain bool // set by Run, before any test runs
	start  sync.Once
	server *Server // nil where Environment is set
	dsn    string
	err    error
}

// Main runs the tests of a package and ends the process. It stops the server
// of the test binary, if one was started.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for packages that have something to do after their tests: it
// returns the code to end the process with.
func Run(m *testing.M) (code int) {
	shared.inMain = true
	code = m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "dbtest:", err)
		code = max(code, 1)
	}
	return code
}

// stopShared ends the server of the test binary; there may be none.
func stopShared() error {
	shared.start.Do(func() {}) // nobody starts it from here on
	if shared.server == nil {
		return nil
	}
	return shared.server.destroy()
}

// Postgres returns the DSN of a running server and the name of a schema on it
// that does not exist yet and that nothing else uses. Whatever the test makes
// of the schema is dropped when the test ends.
func Postgres(t testing.TB) (dsn, schema string) {
	t.Helper()
	if !shared.inMain {
		t.Fatal("dbtest: TestMain must call dbtest.Main or dbtest.Run, which stops the server")
	}
	shared.start.Do(func() {
		if shared.dsn = os.Getenv(Environment); shared.dsn != "" {
			return
		}
		shared.server, shared.err = start(&Options{})
		if shared.err == nil {
			shared.dsn = shared.server.DSN()
		}
	})
	if shared.err != nil {
		t.Fatalf("dbtest: %v", shared.err)
	}
	schema = "test_" + randomHex(8)
	t.Cleanup(func() {
		if err := dropSchema(shared.dsn, schema); err != nil {
			t.Errorf("dbtest: dropping the test's schema: %v", err)
		}
	})
	return shared.dsn, schema
}

func dropSchema(dsn, schema string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// A session that the test left behind must not hang the whole run.
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
