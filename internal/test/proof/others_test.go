package proof

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/test/group"
)

// others are tests of faults that no trial has, with the command that runs them.
var others = []struct {
	name, needs, command string
	found                func(output string) string
}{
	{
		"failovers of a PostgreSQL cluster: primary killed, switchover, Patroni killed", "cluster",
		"go test -count=1 -v -run ^TestFailover$ ./internal/test/failover",
		func(output string) string {
			figures := figuresOf(output, `acknowledged so far: (\d+)`)
			return fmt.Sprintf("%d failovers, %s acknowledged, 0 lost, 0 doubled", len(figures), say.Number(figures[len(figures)-1]))
		},
	},
	{
		"each kind of commit whose reply is lost", "",
		"go test -count=1 -v -run Lost.*Reply ./hookpgx ./hooksql", passes,
	},
	{
		"faults behind a handler: a full disk, a killed server or process, an ended transaction", "",
		"go test -count=1 -v -run FullDisk|Killed|Sever|SurviveACrash ./hookpgx ./hooksql ./internal/test/inbox", passes,
	},
	{
		"races on the stores, all calls beside each other", "",
		"go test -count=1 -v -run Concurrent|Against|Race|Work$/^Races$ ./hookpgx ./hooksql", passes,
	},
}

// passes counts the tests that passed.
func passes(output string) string {
	return fmt.Sprintf("%d tests passed", strings.Count(output, "--- PASS: "))
}

// figuresOf returns the numbers in an output, at least one.
func figuresOf(output, pattern string) (all []int) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(output, -1) {
		n, _ := strconv.Atoi(m[1]) // the pattern has digits
		all = append(all, n)
	}
	if len(all) == 0 {
		panic(fmt.Sprintf("no %q in:\n%s", pattern, output))
	}
	return all
}

// other runs the command of one of others, and returns its result for the page.
func other(t *testing.T, i int) string {
	t.Helper()
	o := &others[i]
	if o.needs != "" {
		group.Need(t, o.needs)
	}
	words := strings.Fields(o.command)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), group.Environment+"="+o.needs, pageVariable+"=") // in its short form
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", o.command, err, out)
	}
	return o.found(strings.TrimSpace(string(out)))
}
