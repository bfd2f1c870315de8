package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const module, trial = "github.com/hookonce/hookonce", "v0.0.1"

// TestModule gets the last commit from a proxy in a folder, as "go get" does after a release, and builds the README's program.
func TestModule(t *testing.T) {
	t.Parallel()
	source, proxy, user := t.TempDir(), t.TempDir(), t.TempDir()
	archive := filepath.Join(t.TempDir(), "source.tar")
	must := func(folder string, environment []string, name string, args ...string) string {
		t.Helper()
		out, err := output(t.Context(), folder, environment, name, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	must("../..", nil, "git", "-c", "safe.directory=*", "archive", "--output="+archive, "HEAD")
	must(source, nil, "tar", "-xf", archive)
	served(t, source, proxy)

	// That of the working tree, since the cache of test results sees no other.
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("the README has no block of Go")
	}
	write(t, filepath.Join(user, "main.go"), block[1])
	// This machine's modules come first, then the proxy of its settings.
	others := "file://" + must("", nil, "go", "env", "GOMODCACHE") + "/cache/download," + must("", nil, "go", "env", "GOPROXY")
	environment := []string{
		"GOPROXY=file://" + proxy + "," + others, "GONOSUMDB=" + module, "GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0",
	}
	must(user, environment, "go", "mod", "init", "example.com/stranger")
	must(user, environment, "go", "get", module+"@"+trial)
	must(user, environment, "go", "mod", "tidy")
	must(user, environment, "go", "build", "-o", os.DevNull, ".")

	linked := must(user, environment, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	modules := map[string]bool{}
	for name := range strings.Lines(linked + "\n") {
		modules[strings.TrimSpace(name)] = true
	}
	delete(modules, "")
	sums, err := os.ReadFile(filepath.Join(user, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the program links %d modules, itself included; go list -m all has %d, go.sum %d lines", len(modules),
		strings.Count(must(user, environment, "go", "list", "-m", "all")+"\n", "\n"), strings.Count(string(sums), "\n"))
}

// served writes the module into a folder as a proxy serves it: without the modules of their own in it.
func served(t *testing.T, source, proxy string) {
	t.Helper()
	files, err := read(source, "")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, f := range files {
		if path.Base(f.name) == "go.mod" && f.name != "go.mod" {
			own[path.Dir(f.name)] = true
		}
	}
	var entries []entry
	for _, f := range files {
		inside := false
		for folder := path.Dir(f.name); folder != "."; folder = path.Dir(folder) {
			inside = inside || own[folder]
		}
		if !inside {
			f.name = module + "@" + trial + "/" + f.name
			entries = append(entries, f)
		}
	}
	data, err := zipped(entries, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if limit := 500 << 20; len(data) > limit {
		t.Errorf("the module has %d bytes, more than the go command takes", len(data))
	}
	folder := filepath.Join(proxy, module, "@v")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "list"), []byte(trial+"\n"))
	write(t, filepath.Join(folder, trial+".info"), []byte(`{"Version":"`+trial+`","Time":"2026-01-01T00:00:00Z"}`))
	write(t, filepath.Join(folder, trial+".mod"), mod)
	write(t, filepath.Join(folder, trial+".zip"), data)
	t.Logf("the module has %d files and %d bytes as a zip", len(entries), len(data))
}
