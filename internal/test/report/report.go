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

func replace(page []byte, section, target, text string) ([]byte, error) {
	begin, end := fmt.Sprintf("<!-- %s: written by make %s -->", section, target), fmt.Sprintf("<!-- end of %s -->", section)
	before, rest, begins := bytes.Cut(page, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends {
		return nil, fmt.Errorf("there is no place for the figures: it needs the lines %q and %q", begin, end)
	}
	return fmt.Appendf(nil, "%s%s\n\n%s\n\n%s%s", before, begin, strings.TrimSpace(text), end, after), nil
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
