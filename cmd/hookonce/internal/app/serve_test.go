package app

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

func TestServeOnSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	r := serve(t, settings(t, "database: sqlite:"+path))
	public := "http://" + r.await(t, "listen")["listen"].(string)
	admin := "http://" + r.await(t, "admin")["admin"].(string)

	for url, want := range map[string]int{
		admin + "/healthz":       http.StatusOK,
		admin + "/readyz":        http.StatusOK,
		admin + "/api/v1/events": http.StatusOK,
		admin + "/":              http.StatusOK,
		admin + "/sources":       http.StatusOK,
		// The public listener serves only /webhooks/, and never redirects.
		public + "/webhooks/none":       http.StatusNotFound,
		public + "/healthz":             http.StatusNotFound,
		public + "/":                    http.StatusNotFound,
		public + "/sources":             http.StatusNotFound,
		public + "/login":               http.StatusNotFound,
		public + "/api/v1/events":       http.StatusNotFound,
		public + "//webhooks/none":      http.StatusNotFound,
		public + "/webhooks/../healthz": http.StatusNotFound,
	} {
		if got := status(t, url); got != want {
			t.Errorf("GET %s is %d, want %d", url, got, want)
		}
	}
	for _, name := range []string{path, path + ".lock", path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	r.cancel()
	if err := r.wait(t); err != nil {
		t.Errorf("a clean stop ended with %v", err)
	}
}

func TestOneGatewayForEachSQLiteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "test.db"), filepath.Join(dir, "link.db")
	first := serve(t, settings(t, "database: sqlite:"+path))
	first.await(t, "admin")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		err := serve(t, settings(t, "database: sqlite:"+name)).wait(t)
		wantHint(t, err, "another gateway (process", "PostgreSQL")
		if !strings.Contains(err.Error(), path+".lock") {
			t.Errorf("error %q does not name the lock", err)
		}
	}
	if runtime.GOOS == "linux" {
		if err := os.Remove(path + ".lock"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first one leaves no lock file
			err := serve(t, settings(t, "database: sqlite:"+link)).wait(t)
			wantHint(t, err, "another gateway without a lock file serves the database "+path+": it holds the file itself", "PostgreSQL")
		}
	}
	serve(t, settings(t, "database: sqlite:"+filepath.Join(dir, "other.db"))).await(t, "admin")
	first.cancel()
	if err := first.wait(t); err != nil {
		t.Fatal(err)
	}
	serve(t, settings(t, "database: sqlite:"+link)).await(t, "admin")
}

func TestServeRefusesATakenAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	s := settings(t, "database: sqlite:"+filepath.Join(t.TempDir(), "test.db"))
	s.Listen = taken.Addr().String()
	wantHint(t, serve(t, s).wait(t), "listen: ", "the setting listen")
	s.Listen, s.Admin.Listen = "127.0.0.1:0", taken.Addr().String()
	wantHint(t, serve(t, s).wait(t), "admin.listen: ", "the setting admin.listen")

	// A failure to open a listener has changed nothing.
	store, err := OpenStore(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if applied, err := store.Applied(t.Context()); err != nil || len(applied) != 0 {
		t.Errorf("the schema has the steps %v, error %v", applied, err)
	}
}

// Orchestrators start databases and gateways at the same time.
func TestServeWaitsForItsDatabase(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	server.Shutdown(t)
	s := settings(t, "database: "+server.DSN())

	dsn, err := url.Parse(server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	// The driver reports two addresses on two lines; the log needs one.
	twice := strings.Replace(server.DSN(), "@"+dsn.Host, "@"+dsn.Host+","+dsn.Host, 1)
	early := serve(t, settings(t, "database: "+twice))
	text, _ := early.await(t, "until")["error"].(string)
	if strings.Count(text, dsn.Port()) < 2 || strings.ContainsAny(text, "\n\t") {
		t.Errorf("the log of two addresses is %q", text)
	}
	early.cancel()
	if err := early.wait(t); err != nil {
		t.Errorf("stopped while it waited, Serve returned %v", err)
	}

	r := serve(t, s)
	line := r.await(t, "until")
	if line["level"] != "WARN" || line["error"] == nil {
		t.Errorf("the log line of the wait is %v", line)
	}
	server.Restart(t)
	admin := "http://" + r.await(t, "admin")["admin"].(string)
	if got := status(t, admin+"/readyz"); got != http.StatusOK {
		t.Errorf("readyz is %d", got)
	}
	password, _ := strings.CutPrefix(server.DSN(), "postgres://")
	_, password, _ = strings.Cut(password, ":")
	password, _, _ = strings.Cut(password, "@")
	if password == "" || strings.Contains(early.log.text()+r.log.text(), password) {
		t.Error("the log shows the database's password")
	}
}

// Waiting resolves none of these errors.
func TestServeDoesNotWaitForLastingErrors(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	dsn, err := url.Parse(dbtest.StartServer(t, nil).DSN())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, hint string
		change     func(*url.URL)
	}{
		{"wrong password", "user and password", func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "wrong") }},
		{"no such role", "user and password", func(u *url.URL) { u.User = url.UserPassword("unknown", "wrong") }},
		{"no such database", "create that database", func(u *url.URL) { u.Path = "/none" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := *dsn
			tt.change(&other)
			r := serve(t, settings(t, "database: "+other.String()))
			wantHint(t, r.wait(t), "reaching the database", tt.hint)
			if strings.Contains(r.log.text(), "waiting") {
				t.Errorf("it waited:\n%s", r.log.text())
			}
		})
	}
}

func TestServeRefusesAFileThatIsNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("This is a text. ", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := serve(t, settings(t, "database: sqlite:"+path))
	wantHint(t, r.wait(t), path+" is not a SQLite database", "name another file")
	if strings.Contains(r.log.text(), "waiting") {
		t.Errorf("it waited:\n%s", r.log.text())
	}
}

func TestServeRefusesADatabaseThatLosesCommits(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, &dbtest.Options{Config: []string{"fsync=off", "full_page_writes=off"}})
	dsn := server.DSN()

	err := serve(t, settings(t, "database: "+dsn)).wait(t)
	wantHint(t, err, "fsync is off", "allow_unsafe: [")
	if !strings.Contains(err.Error(), "full_page_writes is off") {
		t.Errorf("error %q names one weakness of two", err)
	}
	wantHint(t, serve(t, settings(t, "database: "+dsn+"\nallow_unsafe: [fsync]")).wait(t),
		"full_page_writes is off", "allow_unsafe: [full_page_writes]")

	r := serve(t, settings(t, "database: "+dsn+"\nallow_unsafe: [fsync, full_page_writes]"))
	r.await(t, "admin")
	if line := r.await(t, "setting"); line["level"] != "WARN" || line["remedy"] == "" {
		t.Errorf("an allowed weakness is logged as %v", line)
	}
}

// The setting reaches both listeners.
func TestTrustedProxiesNameTheClient(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		text := "admin: {token: 0123456789abcdef}\nunverified_rate: 1/h\ndatabase: sqlite:" + filepath.Join(t.TempDir(), "test.db") +
			"\nsources: {gh: {provider: github, secrets: [0123456789abcdef]}}\n"
		if trusted {
			text += "trusted_proxies: [127.0.0.0/8]\n"
		}
		r := serve(t, settings(t, text))
		admin := r.await(t, "admin")["admin"].(string)
		public := r.await(t, "listen")["listen"].(string)
		send := func(method, url, client string) int {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Forwarded-For", "192.0.2.1, "+client)
			req.Header.Set("Authorization", "Bearer wrong")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		got := []int{
			send("POST", "http://"+public+"/webhooks/gh", "198.51.100.1"), send("POST", "http://"+public+"/webhooks/gh", "198.51.100.2"),
		}
		for range 10 {
			send("GET", "http://"+admin+"/api/v1/events", "198.51.100.1")
		}
		got = append(got, send("GET", "http://"+admin+"/api/v1/events", "198.51.100.1"), send("GET", "http://"+admin+"/api/v1/events", "198.51.100.2"))
		want := []int{401, 401, 429, 401}
		if !trusted {
			want = []int{401, 429, 429, 429}
		}
		if !slices.Equal(got, want) {
			t.Errorf("trusted %t: answers %v, want %v", trusted, got, want)
		}
	}
}
