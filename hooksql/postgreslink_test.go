package hooksql

import (
	"testing"
)

func TestUnnamed(t *testing.T) {
	t.Parallel()
	const mode = "default_query_exec_mode=cache_describe"
	for dsn, want := range map[string]string{
		"":                                      mode,
		"host=db user=app":                      "host=db user=app " + mode,
		"postgres://app@db/app":                 "postgres://app@db/app?" + mode,
		"postgresql://app@db/app#x":             "postgresql://app@db/app?" + mode + "#x",
		"postgres://app@db/app?sslmode=require": "postgres://app@db/app?sslmode=require&" + mode,
		"registeredConnConfig7":                 "registeredConnConfig7",
	} {
		if got := unnamed(dsn); got != want {
			t.Errorf("unnamed(%q) is %q, want %q", dsn, got, want)
		}
	}
}
