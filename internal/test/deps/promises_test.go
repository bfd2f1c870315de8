package deps

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each sentence of promisesPage, and each row of its tables, has a row in the tables of ownersPage. The row quotes
// its first words and names the test that owns it.
const (
	promisesPage = "docs/guarantees.md"
	ownersPage   = "internal/test/README.md"
)

// promisesNothing begins the reason why a sentence needs no owner.
const promisesNothing = "– "

// levels are what runs a test: "go test ./...", the gate alone, or the tests of a night.
var levels = []string{"go test", "gate", "night"}

// laterTests matches the tests that "go test ./..." leaves out.
var laterTests = regexp.MustCompile(`^(internal/test/(browser|receivers|failover|scale|sdk|acme)|bench|examples/\S+|send(nats|amqp|kafka)) |` +
	`^\S+ Test\S*(Pooler|PgBouncer|Broker|Prometheus|Alerts)`)

func TestEachPromiseHasOneOwner(t *testing.T) {
	t.Parallel()
	pages := map[string]source{}
	for _, f := range files(t, func(name string) bool { return name == promisesPage || name == ownersPage }) {
		pages[f.name] = f
	}
	for _, fault := range ownerFaults(pages[promisesPage], pages[ownersPage], testsOf(t)) {
		t.Error(fault)
	}
}

// promise is a sentence, or the first cell of a row of a table.
type promise struct {
	line int
	text string
}

// owner is a row of the tables of owners.
type owner struct {
	line   int
	quotes []string
	tests  []string // or one text: a reason after promisesNothing
	level  string
}

// ownerFaults compares a page with the table of its owners. exists reports whether there is a test of that name.
func ownerFaults(page, table source, exists func(test string) bool) []string {
	var faults []string
	rows, found := ownersOf(table)
	faults = append(faults, found...)
	for _, p := range promisesOf(page) {
		var by []string
		for _, row := range rows {
			for _, quote := range row.quotes {
				if strings.HasPrefix(p.text, quote) {
					by = append(by, fmt.Sprintf("line %d", row.line))
				}
			}
		}
		switch {
		case len(by) == 0:
			faults = append(faults, fmt.Sprintf("%s:%d: nothing owns %q: add a row with its first words and the test that fails if it is false to %s, or add the words to the row whose test holds this too",
				page.name, p.line, p.text, table.name))
		case len(by) > 1:
			faults = append(faults, fmt.Sprintf("%s:%d: %q is quoted %d times in %s (%s): each promise has one owner; quote more words where two sentences begin alike",
				page.name, p.line, p.text, len(by), table.name, strings.Join(by, ", ")))
		}
	}
	for _, row := range rows {
		faults = append(faults, rowFaults(page, table, row, exists)...)
	}
	return faults
}

func rowFaults(page, table source, row owner, exists func(test string) bool) []string {
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s:%d: ", table.name, row.line)+fmt.Sprintf(format, args...))
	}
	for _, quote := range row.quotes {
		if !slices.ContainsFunc(promisesOf(page), func(p promise) bool { return strings.HasPrefix(p.text, quote) }) {
			fault("no sentence of %s begins with %q: quote the sentence as it is now, or remove the row", page.name, quote)
		}
	}
	if strings.HasPrefix(row.tests[0], promisesNothing) {
		return faults
	}
	if !slices.Contains(levels, row.level) {
		fault("the level is %q, want one of %q", row.level, levels)
	}
	for _, test := range row.tests {
		if !exists(test) {
			fault("there is no test %q: name one that exists, as \"folder TestName\", \"folder TestName/case\", or a case of the conformance suite as \"internal/test/storetest Group/Case\"", test)
		}
		if row.level == levels[0] && laterTests.MatchString(test) {
			fault("%q does not run in \"go test ./...\": its level is one of %q", test, levels[1:])
		}
	}
	return faults
}

// promisesOf returns what a page promises. The text of a link stands for the link, and bold text is plain.
func promisesOf(page source) []promise {
	var all []promise
	for _, b := range blocksOf(page.text) {
		if b.kind == paragraph {
			for _, text := range sentencesOf(b.text) {
				all = append(all, promise{b.line, text})
			}
		}
	}
	for _, row := range rowsOf(page) {
		all = append(all, promise{row.line, plainText(row.cells[0])})
	}
	slices.SortStableFunc(all, func(a, b promise) int { return a.line - b.line })
	return all
}

var (
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	pairs    = strings.NewReplacer("**", "")
)

func plainText(text string) string {
	return pairs.Replace(strings.Join(strings.Fields(linkText.ReplaceAllString(text, "$1")), " "))
}

// sentencesOf splits a paragraph. A bold title belongs to the sentence behind it.
func sentencesOf(text string) []string {
	text = strings.Join(strings.Fields(linkText.ReplaceAllString(text, "$1")), " ")
	var all []string
	bold, code, begin := false, false, 0
	for i := range len(text) {
		switch {
		case text[i] == '`':
			code = !code
		case strings.HasPrefix(text[i:], "**"):
			bold = !bold
		case !bold && !code && i > 0 && text[i] == ' ' && strings.ContainsRune(".?!", rune(text[i-1])):
			all = append(all, plainText(text[begin:i]))
			begin = i + 1
		}
	}
	return append(all, plainText(text[begin:]))
}

// row is a row of a table that is not its header.
type row struct {
	line  int
	cells []string
}

func rowsOf(page source) []row {
	var all []row
	lines := strings.Split(string(page.text), "\n")
	for _, b := range blocksOf(page.text) {
		switch {
		case b.kind != cell, b.line < len(lines) && delimiter.MatchString(lines[b.line]) && strings.HasPrefix(lines[b.line], "|"):
		case len(all) > 0 && all[len(all)-1].line == b.line:
			all[len(all)-1].cells = append(all[len(all)-1].cells, b.text)
		default:
			all = append(all, row{b.line, []string{b.text}})
		}
	}
	return all
}

// ownersOf reads the tables of owners: quotes, tests and level. The first two are separated by "<br>".
func ownersOf(table source) (all []owner, faults []string) {
	for _, r := range rowsOf(table) {
		if len(r.cells) != 3 || r.cells[0] == "" || r.cells[1] == "" {
			faults = append(faults, fmt.Sprintf("%s:%d: the row %q needs the first words of sentences, the tests, and a level", table.name, r.line, r.cells))
			continue
		}
		o := owner{line: r.line, level: strings.Trim(r.cells[2], "`")}
		for quote := range strings.SplitSeq(r.cells[0], "<br>") {
			o.quotes = append(o.quotes, strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(quote), "…")))
		}
		for test := range strings.SplitSeq(r.cells[1], "<br>") {
			o.tests = append(o.tests, strings.Trim(strings.TrimSpace(test), "`"))
		}
		all = append(all, o)
	}
	return all, faults
}

// suite is the folder of the conformance suite. Its cases are no functions of a test, but entries of lists.
const suite = "internal/test/storetest"

// testsOf returns a function that reports whether a test exists. A case of a test is a text in the folder of the test,
// or the name of a script in its testdata.
func testsOf(t *testing.T) func(test string) bool {
	t.Helper()
	names := testNames(t)
	return func(test string) bool {
		if names[test] {
			return true
		}
		folder, name, _ := strings.Cut(test, " ")
		name, cases, has := strings.Cut(name, "/")
		if !has || !strings.HasPrefix(name, "Test") || !names[folder+" "+name] {
			return false
		}
		// A name of a case may contain slashes itself.
		return names[folder+"/"+cases] || !slices.ContainsFunc(strings.Split(cases, "/"), func(one string) bool { return !names[folder+"/"+one] })
	}
}

// testNames returns "folder TestName" of each test, "folder/text" of each text in tests and each script, and
// "folder Group/Case" of the suite.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names, set, lists := map[string]bool{}, token.NewFileSet(), map[string]*ast.FuncDecl{}
	for _, f := range files(t, func(name string) bool {
		return isTest(name) || strings.HasPrefix(name, suite+"/") && isGo(name) || strings.HasSuffix(name, ".txtar")
	}) {
		folder := path.Dir(f.name)
		if !isGo(f.name) {
			folder, _, _ = strings.Cut(folder, "/testdata/")
			names[folder+"/"+strings.TrimSuffix(path.Base(f.name), ".txtar")] = true
			continue
		}
		tree := parse(t, set, f)
		for _, d := range tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			switch {
			case !ok || fn.Recv != nil:
			case folder == suite:
				lists[fn.Name.Name] = fn
			case strings.HasPrefix(fn.Name.Name, "Test"):
				names[folder+" "+fn.Name.Name] = true
			}
		}
		for _, text := range textsIn(tree) {
			names[folder+"/"+text] = true
		}
	}
	for _, name := range suiteCases(lists) {
		names[suite+" "+name] = true
	}
	return names
}

func textsIn(tree ast.Node) (all []string) {
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// suiteCases returns the cases of the conformance suite as "Group/Case": Exercise and ExerciseWork list groups, each
// with the function that returns its cases. ExerciseConcurrent lists cases, as the group Concurrent.
func suiteCases(lists map[string]*ast.FuncDecl) (all []string) {
	for _, name := range []string{"Exercise", "ExerciseWork"} {
		for group, entry := range entriesOf(lists[name]) {
			for _, one := range casesIn(entry, lists) {
				all = append(all, group+"/"+one)
			}
		}
	}
	for one := range entriesOf(lists["ExerciseConcurrent"]) {
		all = append(all, "Concurrent/"+one)
	}
	return all
}

// casesIn returns the entries of all lists that n calls for. Functions of lists are named so.
func casesIn(n ast.Node, lists map[string]*ast.FuncDecl) (all []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || !strings.HasSuffix(id.Name, "Cases") && !strings.HasSuffix(id.Name, "Shapes") || lists[id.Name] == nil {
			return true
		}
		for one := range entriesOf(lists[id.Name]) {
			all = append(all, one)
		}
		all = append(all, casesIn(lists[id.Name].Body, lists)...)
		return true
	})
	return all
}

// entriesOf returns the composite literals in a function that begin with a name, by that name.
func entriesOf(fn *ast.FuncDecl) map[string]ast.Node {
	entries := map[string]ast.Node{}
	if fn == nil {
		return entries
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) < 2 {
			return true
		}
		first := lit.Elts[0]
		if kv, ok := first.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "name" {
				return true
			}
			first = kv.Value
		} else if _, ok := lit.Elts[1].(*ast.BasicLit); ok {
			return true // a list of texts
		}
		if name, ok := first.(*ast.BasicLit); ok && name.Kind == token.STRING {
			entries[strings.Trim(name.Value, `"`)] = lit
		}
		return true
	})
	return entries
}

const promisingPage = "# Page\n\n## What is promised\n\n**One. Two.** A `b. c` and [a link](y.md) end. Next, 1.5 ends.\n\n" +
	"| failure | answer |\n|---|---|\n| it [breaks](z.md) | 503 |\n\n## What is not promised\n\n- **Order.** It is not kept.\n- Speed.\n"

func TestPromisesOfFinds(t *testing.T) {
	t.Parallel()
	want := []promise{
		{5, "One. Two. A `b. c` and a link end."},
		{5, "Next, 1.5 ends."},
		{9, "it breaks"},
		{13, "Order. It is not kept."},
		{14, "Speed."},
	}
	got := promisesOf(source{promisesPage, []byte(promisingPage)})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(promise{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOwnerFaultsFinds(t *testing.T) {
	t.Parallel()
	const head, good = "| promise | owner | level |\n|---|---|---|\n", "| One. Two…<br>Next… | `a TestA`<br>`a TestB` | `go test` |\n| it breaks… | `a TestA/x` | `gate` |\n" +
		"| Order… | – it permits | – |\n| Speed… | – names a limit | – |\n"
	exists := func(test string) bool {
		return slices.Contains([]string{"a TestA", "a TestB", "a TestA/x", "bench TestB", "a TestPooler"}, test)
	}
	for name, tt := range map[string]struct {
		before, after string   // a change of the good table
		want          []string // parts of the faults
	}{
		"good":                 {"", "", nil},
		"a sentence too much":  {"<br>Next…", "", []string{`p.md:5: nothing owns "Next, 1.5 ends.": add a row`}},
		"a row of the table":   {"it breaks…", "it bends…", []string{`nothing owns "it breaks"`, `o.md:4: no sentence of p.md begins with "it bends"`}},
		"two owners":           {"Order…", "Order…<br>Next, 1…", []string{`"Next, 1.5 ends." is quoted 2 times in o.md (line 3, line 5)`}},
		"no such test":         {"`a TestB`", "`a TestC`", []string{`o.md:3: there is no test "a TestC"`}},
		"no such level":        {"`gate`", "often", []string{`o.md:4: the level is "often"`}},
		"a folder of the gate": {"`a TestB`", "`bench TestB`", []string{`"bench TestB" does not run in "go test ./..."`}},
		"a test of the gate":   {"`a TestB`", "`a TestPooler`", []string{`"a TestPooler" does not run`}},
		"an incomplete row":    {" – it permits | – |", " – it permits |", []string{"needs the first words", `nothing owns "Order`}},
	} {
		table := source{"o.md", []byte(head + strings.Replace(good, tt.before, tt.after, 1))}
		got := ownerFaults(source{"p.md", []byte(promisingPage)}, table, exists)
		if len(got) != len(tt.want) {
			t.Errorf("%s: found %q, want %d", name, got, len(tt.want))
			continue
		}
		for _, part := range tt.want {
			if !slices.ContainsFunc(got, func(fault string) bool { return strings.Contains(fault, part) }) {
				t.Errorf("%s: found %q, want one with %q", name, got, part)
			}
		}
	}
}

func TestTestsOfFinds(t *testing.T) {
	t.Parallel()
	exists := testsOf(t)
	for test, want := range map[string]bool{
		"internal/test/deps TestTestsOfFinds": true, "internal/test/deps TestNothing": false, "internal/test/depths TestTestsOfFinds": false,
		"internal/test/deps TestSleepsFinds/beside a bubble": true, "internal/test/deps TestSleepsFinds/" + "no" + "where": false,
		suite + " Lease/DatabaseClock": true, suite + " Lease/OfAClaim": true, suite + " Claim/OfAClaim": false, suite + " Take/DatabaseClock": true,
		suite + " Replay/AllSent": true, suite + " Replay/OpenWaiting": true, suite + " Concurrent/OneKey": true, suite + " OneKey": false,
		suite + " Lease": false, "cmd/hookonce/internal/cli TestScripts/doctor": true, "cmd/hookonce/internal/cli TestScripts/no such script": false,
	} {
		if got := exists(test); got != want {
			t.Errorf("%q: exists %t, want %t", test, got, want)
		}
	}
}
