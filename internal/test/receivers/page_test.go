package receivers

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the reports of the articles' receivers into docs/five-minute-test.md")

// page shows the reports, each in a code block below a mark.
var page = filepath.Join(root, "docs", "five-minute-test.md")

// reported matches a mark with its report: the program, and the code block.
var reported = regexp.MustCompile("(?m)^<!-- probe: (\\S+) -->\n\n```\n((?s:.*?))```$")

// explained matches what a report says below the titles of its checks.
var explained = regexp.MustCompile(`(?m)^( {5}\S.*\n)+|^More about each check:\n.*\n`)

// brief leaves out of a report what the page explains above it.
func brief(report, above string) string {
	return explained.ReplaceAllStringFunc(report, func(words string) string {
		if strings.Contains(above, words) {
			return ""
		}
		return words
	})
}

var updating sync.Mutex

// TestArticles checks that the page shows the verdicts on the articles' receivers.
func TestArticles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown, above := make(map[string]string), make(map[string]string)
	for _, m := range reported.FindAllSubmatchIndex(text, -1) {
		program := string(text[m[2]:m[3]])
		shown[program], above[program] = string(text[m[4]:m[5]]), string(text[:m[0]])
	}
	programs, err := filepath.Glob(filepath.Join("*", "article_*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(programs) != len(shown) {
		t.Errorf("%s shows %d reports of %d receivers", page, len(shown), len(programs))
	}
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			command := node
			if strings.HasSuffix(program, ".py") {
				command = python
			}
			output, _ := start(t, "", "effects", command(t, filepath.Base(program))...).run(t, "--checks", strings.Join(steady, ","))
			report := brief(faultsOf(output), above[program])
			if *update {
				show(t, program, report)
				return
			}
			if diff := cmp.Diff(steadyPart(shown[program]), steadyPart(report)); diff != "" {
				t.Errorf("%s shows another report; -update writes this one (-want +got):\n%s\n%s", page, diff, report)
			}
		})
	}
}

// faultsOf leaves out the checks that pass.
func faultsOf(output string) string {
	var kept strings.Builder
	passes := false
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "  ") {
			passes = strings.HasPrefix(line, " ✓")
		}
		if !passes {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// unsteady are the parts of a report that differ from run to run: the answers and the effects behind
// a title, which may go on in the next lines; the check that depends on a first attempt that is over;
// and the sums.
var unsteady = []struct {
	part *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?m)^( [✗?] .{29}).*(\n {34}.*)*$`), "$1"},
	{regexp.MustCompile(`(?m)^ ✗ duplicate after failure .*\n( {5}.*\n)*`), ""},
	{regexp.MustCompile(`(?m)^\d+ passed .*\n`), ""},
}

// steadyPart leaves out of a report the parts that differ from run to run.
func steadyPart(report string) string {
	for _, u := range unsteady {
		report = u.part.ReplaceAllString(report, u.by)
	}
	return report
}

// show writes a report into the page.
func show(t *testing.T, program, report string) {
	t.Helper()
	updating.Lock()
	defer updating.Unlock()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	changed := reported.ReplaceAllFunc(text, func(block []byte) []byte {
		if string(reported.FindSubmatch(block)[1]) != program {
			return block
		}
		return []byte("<!-- probe: " + program + " -->\n\n```\n" + report + "```")
	})
	if bytes.Equal(text, changed) {
		t.Logf("%s shows this report, or has no mark for it:\n%s", page, report)
	}
	if err := os.WriteFile(page, changed, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPageListsFaults checks the table of faults in docs/five-minute-test.md.
func TestPageListsFaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	listed, want := make(map[string][]string), make(map[string][]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|[^|]*\\| (`.*`) \\|$").FindAllStringSubmatch(string(text), -1) {
		listed[row[1]] = sorted(strings.Split(strings.Trim(row[2], "`"), "`, `"))
	}
	for _, fault := range faults {
		want[fault.name] = sorted(fault.failed)
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("%s (-want +got):\n%s", page, diff)
	}
}
