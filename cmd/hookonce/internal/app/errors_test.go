package app

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// A file that another program keeps locked is named with what to do.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	open := func() *sql.DB {
		db, err := sql.Open(sqliteDriver, path+"?_pragma=busy_timeout(0)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db
	}
	if _, err := open().ExecContext(t.Context(), `CREATE TABLE t (x)`); err != nil {
		t.Fatal(err)
	}
	tx, err := open().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = open().ExecContext(t.Context(), `INSERT INTO t VALUES (1)`)
	if text := (&openError{path, err}).Error(); !strings.HasPrefix(text, "opening the database "+path+": database is locked (5)") {
		t.Errorf("the error of the file is %s", text)
	}
	if got := Remedy(err); !strings.HasPrefix(got, "end the program that keeps the file locked, or run the same command again") {
		t.Errorf("the remedy for %v is %q", err, got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// TestRemediesOfServers opens databases that refuse the gateway, each for a reason of its own. The error names it, and serve
// waits only for those that may pass by themselves.
func TestRemediesOfServers(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	for name, test := range map[string]struct {
		alter, message, hint string
		waits                bool
	}{
		"no connection left":              {"CONNECTION LIMIT 0", "too many connections", "lower pool_max_conns", true},
		"a read-only database for a role": {"IN DATABASE postgres SET default_transaction_read_only = on", "the role is read-only", "RESET default_transaction_read_only", false},
		"a read-only role":                {"SET default_transaction_read_only = on", "the role is read-only", "RESET default_transaction_read_only", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			role := newRole(t)
			if _, err := role.root.Exec(t.Context(), "ALTER ROLE "+role.name+" "+test.alter); err != nil {
				t.Fatal(err)
			}
			_, err := OpenStore(t.Context(), settings(t, "database: "+role.url(role.secret)))
			wantHint(t, err, test.message, test.hint)
			if mayHeal(err) != test.waits {
				t.Errorf("serve waits for %q: %t, want %t", err, !test.waits, test.waits)
			}
		})
	}
	for parameter, message := range map[string]string{
		"sslmode=require": "server refused TLS connection", "channel_binding=require": "channel binding required but", "require_auth=gss": "requirement",
	} {
		t.Run(parameter, func(t *testing.T) {
			t.Parallel()
			role := newRole(t)
			u, err := url.Parse(role.url(role.secret))
			if err != nil {
				t.Fatal(err)
			}
			name, value, _ := strings.Cut(parameter, "=")
			query := u.Query()
			query.Set(name, value)
			u.RawQuery = query.Encode()
			_, err = OpenStore(t.Context(), settings(t, "database: "+u.String()))
			wantHint(t, err, message, name)
			if mayHeal(err) {
				t.Errorf("serve waits for %q", err)
			}
		})
	}
	t.Run("an unknown authority", func(t *testing.T) {
		t.Parallel()
		folder := dbtest.Folder(t, "hookonce-tls-")
		server := dbtest.StartServer(t, &dbtest.Options{Config: encrypted(t, folder)})
		other, _ := brokertest.Certificate(t)
		for authority, message := range map[string]string{filepath.Join(folder, "cert.pem"): "", other: "certificate signed by unknown authority"} {
			database := strings.ReplaceAll(server.DSN(), "sslmode=disable", "sslmode=verify-full&sslrootcert="+authority)
			store, err := OpenStore(t.Context(), settings(t, "database: "+database))
			if message == "" {
				if err != nil {
					t.Errorf("with its own authority: %v", err)
				} else if err := store.Close(); err != nil {
					t.Error(err)
				}
				continue
			}
			wantHint(t, err, message, "check sslmode and sslrootcert")
			if mayHeal(err) {
				t.Errorf("serve waits for %q", err)
			}
		}
	})
	t.Run("a standby", func(t *testing.T) {
		t.Parallel()
		server := dbtest.StartServer(t, nil)
		server.Shutdown(t)
		server.MakeStandby(t)
		server.Restart(t)
		_, err := OpenStore(t.Context(), settings(t, "database: "+server.DSN()))
		wantHint(t, err, "the server that answers is a standby", "name the primary")
		if !mayHeal(err) {
			t.Error("serve does not wait for a standby, which may become the primary")
		}
	})
}

// encrypted puts a certificate and its key into a folder, and returns the settings of a PostgreSQL server for them. The server
// refuses the key of another user.
func encrypted(t *testing.T, folder string) []string {
	t.Helper()
	certFile, keyFile := brokertest.Certificate(t)
	owner, err := dbtest.Unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	for from, name := range map[string]string{certFile: "cert.pem", keyFile: "key.pem"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if owner != nil {
			if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return []string{"ssl=on", "ssl_cert_file=" + filepath.Join(folder, "cert.pem"), "ssl_key_file=" + filepath.Join(folder, "key.pem")}
}
