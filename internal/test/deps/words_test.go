package deps

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxHardPatterns is how many hard patterns 1,000 comment lines may hold.
const maxHardPatterns = 5

// hard matches forms that make a reader go back: noun phrases built from a
// question word, relative clauses behind a preposition, and old-fashioned words.
// It is a net, not the rule: most hard sentences match nothing here.
var hard = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`what (is|was|are|were|it|of|that|they|has|had|this|these|those|he|a|an|the|every|each|some|somebody|nobody|cannot|can|must|may|` +
		`does|do|did|would|needs|stands|comes|came|goes|follows|belongs|remains|happens to|becomes)`,
	`(of|by|from|to|in|with|for|at|on|under|behind|after|before|without) (which|whom)`,
	`who (comes|came|asks|has|holds|sends|is|was|reads|works|waits)`,
	`of (it|them) (is|are|was|were)`,
	`whoever|whatever|nobody|shall|owed|owes|owing|reckon\w*`,
	`but for|in vain|that it be|of before|for want of|such that`,
	`thereby|hence|likewise|anew|lest`,
}, "|") + `)\b`)

// wordsFile names the forms, so it is not searched for them.
const wordsFile = "internal/test/deps/words_test.go"

// hardPatterns returns the hard patterns of a text, which may span lines.
func hardPatterns(text string) []string {
	return hard.FindAllString(strings.Join(strings.Fields(text), " "), -1)
}

// found is a hard pattern in a file.
type found struct {
	at      string // file:line
	pattern string
}

// prose is the comments and texts of one file.
type prose struct {
	commentLines int
	found        []found
}

func (p *prose) search(at, text string) {
	for _, pattern := range hardPatterns(text) {
		p.found = append(p.found, found{at, pattern})
	}
}

func TestCommentsAreEasy(t *testing.T) {
	t.Parallel()
	var all prose
	for _, f := range files(t, func(name string) bool { return name != wordsFile && (isGo(name) || isSQL(name)) }) {
		p, err := proseOf(f)
		if err != nil {
			t.Fatal(err)
		}
		all.commentLines += p.commentLines
		all.found = append(all.found, p.found...)
	}
	per1000 := perThousand(len(all.found), all.commentLines)
	t.Logf("%d hard patterns beside %d comment lines: %.1f in 1,000", len(all.found), all.commentLines, per1000)
	if per1000 <= maxHardPatterns {
		return
	}
	for _, f := range all.found {
		t.Logf("%s: %q", f.at, f.pattern)
	}
	t.Errorf("%.1f hard patterns in 1,000 comment lines, more than %d: write shorter sentences, subject first", per1000, maxHardPatterns)
}

func isSQL(name string) bool { return strings.HasSuffix(name, ".sql") }

func perThousand(n, of int) float64 { return 1000 * float64(n) / float64(max(of, 1)) }

func proseOf(f source) (prose, error) {
	if isSQL(f.name) {
		return proseOfSQL(f), nil
	}
	return proseOfGo(f)
}

// proseOfGo reads the comments of a Go file, without directives, and its
// string literals that hold a space.
func proseOfGo(f source) (prose, error) {
	var p prose
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, f.name, f.text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return p, err
	}
	at := func(n ast.Node) string { return fmt.Sprintf("%s:%d", f.name, set.Position(n.Pos()).Line) }
	for _, group := range tree.Comments {
		// Text leaves out directives, and blank lines at both ends.
		if text := group.Text(); text != "" {
			p.commentLines += strings.Count(text, "\n")
			p.search(at(group), text)
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, " ") {
			p.search(at(literal), text)
		}
		return true
	})
	return p, nil
}

// proseOfSQL reads the comments of a SQL file. Those on consecutive lines are
// one text.
func proseOfSQL(f source) prose {
	var p prose
	var text []string
	first := 0
	flush := func() {
		p.search(fmt.Sprintf("%s:%d", f.name, first), strings.Join(text, " "))
		text = nil
	}
	number := 0
	for line := range bytes.Lines(f.text) {
		number++
		_, comment, ok := bytes.Cut(line, []byte("--"))
		if !ok {
			flush()
			continue
		}
		if text == nil {
			first = number
		}
		p.commentLines++
		text = append(text, string(comment))
	}
	flush()
	return p
}

func TestHardPatternsFinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"takes back what was sent":           {"what was"},
		"the event to which it belongs":      {"to which"},
		"it waits in vain; Whoever asks":     {"in vain", "Whoever"},
		"the message that a route\nowes now": {"owes"},
		"says what\n\twas sent":              {"what was"},
		"says what to do":                    nil,
		"a shallow copy, renewed":            nil,
		"returns the open messages":          nil,
	} {
		if diff := cmp.Diff(want, hardPatterns(text)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", text, diff)
		}
	}
}

func TestProseOfFinds(t *testing.T) {
	t.Parallel()
	const goText = `package p

// f returns what
// is owed.
//
//go:noinline
func f() string {
	return "the message that is owed" + "owed" // in vain
}
`
	const sqlText = `-- The row that
-- is owed.
SELECT 'owed'; -- in vain
`
	tests := []struct {
		name, text string
		want       prose
	}{
		{"p.go", goText, prose{3, []found{{"p.go:3", "what is"}, {"p.go:3", "owed"}, {"p.go:8", "in vain"}, {"p.go:8", "owed"}}}},
		{"p.sql", sqlText, prose{3, []found{{"p.sql:1", "owed"}, {"p.sql:1", "in vain"}}}},
	}
	for _, tt := range tests {
		got, err := proseOf(source{tt.name, []byte(tt.text)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(prose{}, found{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
	}
}
