package config

import "testing"

func TestRedactDSN(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"sqlite:hookonce.db":                          "sqlite:hookonce.db",
		"postgres://host/db":                          "postgres://host/db",
		"postgres://user@host:5432/db":                "postgres://user@host:5432/db",
		"postgres://user:pw@a:1,b:2/db?sslmode=v":     "postgres://user:<secret>@a:1,b:2/db?sslmode=v",
		"postgres://u:p/w@host/db":                    "postgres://u:<secret>@host/db",
		"postgres://u:p?w@host/db":                    "postgres://u:<secret>@host/db",
		"postgres://u:p@w:x@host/db":                  "postgres://u:<secret>@host/db",
		"postgres:///db?user=u&password=pw&host=/run": "postgres:///db?user=u&password=<secret>&host=/run",
		"postgresql://h/d?Password=a&sslpassword=b":   "postgresql://h/d?Password=<secret>&sslpassword=<secret>",
		"postgres://u:a@h/d?password=b@c":             "postgres://u:<secret>@h/d?password=<secret>",
	} {
		if got := redactDSN(dsn); got != want {
			t.Errorf("%s\n got %s\nwant %s", dsn, got, want)
		}
	}
}
