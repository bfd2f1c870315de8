// Package report writes what long tests measure into pages of docs/. The text around the figures is
// written by hand.
package report

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// Docs is the folder of the pages, seen from a package at this depth below the module's root.
func Docs(depth int) string {
	return filepath.Join(strings.Repeat(".."+string(filepath.Separator), depth), "docs")
}

// Write replaces the figures in a file with text. They stand between two marks:
//
//	<!-- SECTION: written by make TARGET -->
//	<!-- end of SECTION -->
func Write(t testing.TB, file, section, target, text string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err == nil {
		page, err = replace(page, section, target, text)
	}
	if err == nil {
		err = os.WriteFile(file, page, 0o644)
	}
	if err != nil {
		t.Fatalf("writing figures into %s: %v", file, err)
	}
}

// Read returns the figures between the marks.
func Read(t testing.TB, file, section, target string) string {
	t.Helper()
	page, err := os.ReadFile(file)
	var figures []byte
	if err == nil {
		_, figures, _, err = cut(page, section, target)
	}
	if err != nil {
		t.Fatalf("reading figures of %s: %v", file, err)
	}
	return string(figures)
}

func replace(page []byte, section, target, text string) ([]byte, error) {
	before, _, after, err := cut(page, section, target)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s\n\n%s\n\n%s", before, strings.TrimSpace(text), after), nil
}

// cut splits a page into the text up to the first mark, the figures, and the text from the second mark.
func cut(page []byte, section, target string) (before, figures, after []byte, err error) {
	begin, end := fmt.Sprintf("<!-- %s: written by make %s -->", section, target), fmt.Sprintf("<!-- end of %s -->", section)
	before, rest, begins := bytes.Cut(page, []byte(begin))
	figures, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends {
		return nil, nil, nil, fmt.Errorf("there is no place for the figures: it needs the lines %q and %q", begin, end)
	}
	return append(bytes.Clone(before), begin...), figures, append([]byte(end), after...), nil
}

// Machine describes the processors and the versions, for example "2 cores (AMD EPYC), PostgreSQL
// 15.18, Go 1.26.8".
func Machine() string {
	cpu := "an unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(info); m != nil {
			cpu = strings.Join(strings.Fields(string(m[1])), " ")
		}
	}
	postgres := "PostgreSQL"
	if out, err := exec.Command("pgbench", "--version").Output(); err == nil {
		if m := regexp.MustCompile(`[0-9.]+`).Find(out); m != nil {
			postgres += " " + string(m)
		}
	}
	pgx := ""
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range build.Deps {
			if dep.Path == "github.com/jackc/pgx/v5" {
				pgx = ", pgx " + strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s, Go %s%s", runtime.NumCPU(), cpu, postgres, strings.TrimPrefix(runtime.Version(), "go"), pgx)
}

// scaleVariable names the environment variable of make scale.
const scaleVariable = "HOOKONCE_SCALE"

// Scale reports whether the tests of make scale run in their long form, which writes figures into
// docs/scale.md.
func Scale(t testing.TB) bool {
	t.Helper()
	switch given := os.Getenv(scaleVariable); given {
	case "":
		return false
	case "full":
		return true
	default:
		t.Fatalf("%s is %q: use full, or nothing", scaleVariable, given)
		return false
	}
}
