package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestPasswordChanges changes the password of the gateway's role again and again under load, while connections are made
// all the time. No delivery is refused.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a file":              "database: {url}\ndatabase_password: file:{folder}/password",
		"a command":           "database: {url}\ndatabase_password: {command: [cat, \"{folder}/password\"]}",
		"a file of the URL":   "database: file:{folder}/url",
		"a file of passwords": "database: {url}&passfile={folder}/passfile",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			role := newRole(t)
			s := settings(t, strings.NewReplacer("{folder}", role.folder, "{url}", role.url("")).Replace(text)+
				"\nschema: "+role.schema+"\nsources: {a: {provider: none, event: {id: \"body:id\"}}}\n")
			store, err := openStore(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(store)
			if _, err := hookmigrate.Up(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			in, err := hookonce.NewEngine(store, &s.Engine)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Drain()
			ran := make(chan error, 1)
			var accepted, n atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			go func() { ran <- in.Run(ctx) }()
			var senders sync.WaitGroup
			for range 8 {
				senders.Go(func() {
					for ctx.Err() == nil {
						answer := httptest.NewRecorder()
						in.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/webhooks/a", strings.NewReader(`{"id":"`+strconv.FormatInt(n.Add(1), 10)+`"}`)))
						if answer.Code != http.StatusOK {
							t.Errorf("a delivery is answered %d", answer.Code)
						}
						accepted.Add(1)
					}
				})
			}
			for range 4 {
				before, changed := accepted.Load(), time.Now()
				eventually.True(t, "deliveries go on", func() bool {
					return accepted.Load() > before+20 && time.Since(changed) > passwordLife
				})
				role.change(t)
			}
			stop()
			senders.Wait()
			if err := <-ran; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// passwordLife is the time between two changes. A connection that meets one change must not meet the next with each of its
// tries.
const passwordLife = 2 * time.Second

// changingRole is a role whose password is in files of a folder.
type changingRole struct {
	root                         *pgxpool.Pool
	server                       *url.URL
	name, schema, folder, secret string
}

func newRole(t *testing.T) *changingRole {
	t.Helper()
	dsn, schema := dbtest.Postgres(t)
	root, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	server, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	r := &changingRole{root: root, server: server, name: "changing_" + schema, schema: schema, folder: t.TempDir()}
	if _, err := root.Exec(t.Context(), "CREATE ROLE "+r.name+" LOGIN; CREATE SCHEMA "+schema+" AUTHORIZATION "+r.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := root.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+r.name+"; DROP ROLE "+r.name); err != nil {
			t.Error(err)
		}
	})
	r.change(t)
	return r
}

// url returns a URL with a password, whose connections live for moments only.
func (r *changingRole) url(password string) string {
	u := *r.server
	u.User = url.User(r.name)
	if password != "" {
		u.User = url.UserPassword(r.name, password)
	}
	query := u.Query()
	query.Set("pool_max_conn_lifetime", "50ms")
	u.RawQuery = query.Encode()
	return u.String()
}

// change gives the role another password, and then writes it into the files.
func (r *changingRole) change(t *testing.T) {
	t.Helper()
	r.secret = rand.Text()
	if _, err := r.root.Exec(t.Context(), "ALTER ROLE "+r.name+" PASSWORD '"+r.secret+"'"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"password": r.secret + "\n", "url": r.url(r.secret) + "\n", "passfile": "*:*:*:*:" + r.secret + "\n",
	} {
		path := filepath.Join(r.folder, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPasswordCommand ends a command that hangs, with the processes that it started, and tells nothing that it printed.
func TestPasswordCommand(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for script, want := range map[string]string{
		"echo secret":                          "",
		"echo secret; echo secret >&2; exit 3": "it failed: exit status 3",
		"echo":                                 "it gives no password",
		"yes secret":                           "it printed more than 65536 bytes",
		"sleep 1000 & echo $! > " + folder + "/child; wait": "it did not end within 1s",
	} {
		password, err := runPassword(t.Context(), &config.Password{Command: []string{"sh", "-c", script}, Timeout: time.Second})
		if want == "" && (password != "secret" || err != nil) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %q, %v; want the error %q", script, password, err, want)
		}
	}
	_, err := runPassword(t.Context(), &config.Password{Command: []string{folder + "/missing"}, Timeout: time.Second})
	if err == nil || strings.Contains(err.Error(), folder) {
		t.Errorf("a missing program: %v", err)
	}
	child, err := os.ReadFile(folder + "/child")
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, string(child))
}

// awaitEnd waits until a process ends.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	eventually.True(t, "the process of a command ends", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", strings.TrimSpace(pid)))
		return err != nil || strings.Contains(string(status), ") Z ")
	})
}

// TestPasswordCommandEndsWithTheGateway stops a gateway whose command hangs. The command ends with it, and so does the
// process that it started.
func TestPasswordCommandEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text := "database: postgres://a@127.0.0.1:1/a\ndatabase_password: {command: [sh, -c, \"echo $$ > " + folder + "/shell; sleep 1000 & echo $! > " + folder + "/child; wait\"], timeout: 60s}"
	r := serve(t, settings(t, text))
	var pids [2]string
	for i, name := range []string{"shell", "child"} {
		eventually.True(t, "the command runs", func() bool {
			pid, err := os.ReadFile(filepath.Join(folder, name))
			pids[i] = string(pid)
			return err == nil && strings.HasSuffix(pids[i], "\n")
		})
	}
	stopped := time.Now()
	r.cancel()
	_ = r.wait(t)
	for _, pid := range pids {
		awaitEnd(t, pid)
	}
	if took := time.Since(stopped); took > 50*time.Second {
		t.Errorf("the command ended by its own time-out, after %v", took)
	}
}
