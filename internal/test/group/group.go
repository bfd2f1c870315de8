// Package group switches groups of tests on that need more than Go and PostgreSQL, or more time than a plain "go test ./..."
// should take. The environment variable HOOKONCE_TEST names the groups, separated by commas, or says all. The word long,
// beside them, makes tests run in full that otherwise run in a short form. CONTRIBUTING.md has the table of groups.
package group

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Environment names the variable.
const Environment = "HOOKONCE_TEST"

// needs are the needs of each group, beside Go and PostgreSQL.
var needs = map[string]string{
	"acme":      "builds Pebble",
	"alerts":    "needs Prometheus",
	"bare":      "makes a bare Debian with debootstrap; needs root",
	"bench":     "measures for a minute",
	"brokers":   "needs nats-server and rabbitmq-server",
	"browser":   "needs Chromium, and npm for axe-core",
	"cluster":   "needs Patroni, etcd, HAProxy, and root",
	"demo":      "plays the demo to its end",
	"examples":  "needs Python, Node, npm, curl and openssl",
	"orm":       "builds GORM, bun, sqlx and ent",
	"packages":  "builds the packages and the image, and installs and runs them; needs root",
	"pages":     "needs Python, Node, npm, curl and openssl",
	"plans":     "fills tables of PostgreSQL for two minutes",
	"pooler":    "needs PgBouncer",
	"power":     "cuts the power of a file system in a file; needs root and loop devices",
	"receivers": "needs Python with FastAPI, and Node with npm",
	"scale":     "needs HAProxy",
	"sdk":       "needs Node with npm, and fetches about 180 packages",
	"servers":   "starts servers of PostgreSQL, and stops, harms, moves and replaces them",
}

const (
	all  = "all"
	long = "long"
)

// On reports whether the tests of a group run. It panics if the group, or a word of the variable, is unknown.
func On(name string) bool {
	if needs[name] == "" {
		panic("group: there is no group " + name)
	}
	words := words()
	return slices.Contains(words, all) || slices.Contains(words, name)
}

// Long reports whether tests run in full.
func Long() bool { return slices.Contains(words(), long) }

func words() []string {
	words := strings.FieldsFunc(os.Getenv(Environment), func(r rune) bool { return r == ',' || r == ' ' })
	for _, word := range words {
		if needs[word] == "" && word != all && word != long {
			panic(fmt.Sprintf("%s=%s: there is no group %q; the groups are %s, or all, and the word long",
				Environment, os.Getenv(Environment), word, strings.Join(Names(), ", ")))
		}
	}
	return words
}

// Names returns the groups.
func Names() []string { return slices.Sorted(maps.Keys(needs)) }

// Need skips a test unless its group runs.
func Need(t testing.TB, name string) {
	t.Helper()
	if !On(name) {
		t.Skipf("%s=%s runs this test: it %s", Environment, name, needs[name])
	}
}

// NeedLong skips a test unless tests run in full.
func NeedLong(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skipf("%s=%s runs this test: it takes long", Environment, long)
	}
}

// Only, called from TestMain of a package whose tests belong to one group, leaves TestGroup and the tests besides to run
// unless the group runs. TestGroup calls Need, so that the package shows one skip with its reason.
func Only(name string, besides ...string) {
	if On(name) {
		return
	}
	flag.Parse()
	for name, value := range map[string]string{
		"test.run": "^(" + strings.Join(append(besides, "TestGroup"), "|") + ")$", "test.bench": "",
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// Rounds returns how often a test repeats itself: fewer times in a short run.
func Rounds(short, long int) int {
	if Long() {
		return long
	}
	return short
}
