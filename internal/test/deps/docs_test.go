package deps

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Limits on a page of docs, in words. Long paragraphs and cells are skipped by
// readers, and long pages cannot be searched by eye.
const (
	maxParagraph = 60
	maxCell      = 25
	maxPage      = 2500

	// maxColumns bounds a line outside tables and code, unless it holds a link.
	maxColumns = 120

	// maxHardInDocs is the number of hard patterns that 1,000 words of a page may hold.
	maxHardInDocs = 3
)

// longPages are the pages that may be longer than maxPage: tables to search in.
var longPages = []string{"docs/providers.md"}

// isLinked reports whether the links of a page are checked.
func isLinked(name string) bool {
	switch {
	case name == "README.md", name == "CONTRIBUTING.md", name == "CHANGELOG.md", name == "SECURITY.md", name == "bench/targets.md", name == ownersPage:
		return true
	case strings.HasPrefix(name, "examples/"):
		return path.Base(name) == "README.md"
	}
	return isDoc(name)
}

func isDoc(name string) bool {
	return strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md")
}

func TestLinksOfPages(t *testing.T) {
	t.Parallel()
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(root, filepath.FromSlash(name))) }
	for _, f := range files(t, isLinked) {
		for _, fault := range brokenLinks(f, read) {
			t.Error(fault)
		}
	}
}

// The versions of PostgreSQL that pages name are those that the night tests.
func TestVersionsOfPostgreSQL(t *testing.T) {
	t.Parallel()
	_, list, _ := strings.Cut(readRoot(t, ".ci/nightly"), "for major in ")
	list, _, _ = strings.Cut(list, ";")
	majors := strings.Fields(list)
	if len(majors) < 2 {
		t.Fatal("the script of the night names no versions")
	}
	want := majors[0] + " to " + majors[len(majors)-1]
	for _, name := range []string{"SUPPORT.md", "README.md", "docs/deploying.md"} {
		if !strings.Contains(readRoot(t, name), want) {
			t.Errorf("%s does not name the versions %s that the night tests", name, want)
		}
	}
}

func TestLengthOfDocs(t *testing.T) {
	t.Parallel()
	for _, f := range files(t, isDoc) {
		for _, fault := range append(tooLong(f, slices.Contains(longPages, f.name)), unwrapped(f)...) {
			t.Error(fault)
		}
	}
}

func TestDocsAreEasy(t *testing.T) {
	t.Parallel()
	for _, f := range files(t, func(name string) bool { return name == "README.md" || isDoc(name) }) {
		for _, fault := range hardToRead(f) {
			t.Error(fault)
		}
	}
}

// The kinds of a block. Code blocks, comments, images and figures that a command writes are none.
const (
	paragraph = "paragraph" // an item of a list too
	cell      = "table cell"
	heading   = "heading"
)

// block is a piece of Markdown between breaks.
type block struct {
	kind string
	line int // the first one
	text string
}

var (
	listItem  = regexp.MustCompile(`^([-*+]|[0-9]+[.)]) `)
	delimiter = regexp.MustCompile(`^[|:\- ]+$`)
	codeSpan  = regexp.MustCompile("``[^`]+``|`[^`]*`")
	target    = regexp.MustCompile(`\]\(([^)\s]*)[^)]*\)`)
	cellEnd   = regexp.MustCompile(`(^|[^\\])\|`)
)

// blocksOf reads the Markdown that this project writes: no indented code, no
// headings that are underlined, no nested quotes.
func blocksOf(page []byte) []block {
	var all []block
	open, fence, comment, measured := false, "", false, false
	for i, line := range strings.Split(string(page), "\n") {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), ">"))
		start := func(kind, text string) {
			all = append(all, block{kind, i + 1, text})
			open = kind == paragraph
		}
		switch {
		case fence != "":
			if strings.HasPrefix(text, fence) {
				fence = ""
			}
		case comment || strings.HasPrefix(text, "<!--"):
			comment, open = !strings.HasSuffix(text, "-->"), false
			measured = strings.Contains(text, ": written by make ") || measured && !strings.HasPrefix(text, "<!-- end of ")
		case measured:
		case strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
			fence, open = text[:3], false
		case text == "":
			open = false
		case strings.HasPrefix(text, "#"):
			start(heading, strings.TrimSpace(strings.TrimLeft(text, "#")))
		case strings.HasPrefix(text, "|"):
			open = false
			if !delimiter.MatchString(text) {
				for _, c := range cellsOf(text) {
					start(cell, c)
				}
			}
		case open && !listItem.MatchString(text):
			all[len(all)-1].text += "\n" + text
		default:
			start(paragraph, listItem.ReplaceAllString(text, ""))
		}
	}
	return all
}

// cellsOf splits a row of a table. A '|' within a cell is written `\|`.
func cellsOf(row string) []string {
	row = strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|")
	var cells []string
	for {
		at := cellEnd.FindStringIndex(row)
		if at == nil {
			return append(cells, strings.TrimSpace(row))
		}
		cells = append(cells, strings.TrimSpace(row[:at[1]-1]))
		row = row[at[1]:]
	}
}

// wordsIn counts the words of a text as a reader sees it: without the targets
// of links, and without marks that stand alone.
func wordsIn(text string) int {
	n := 0
	for _, word := range strings.Fields(target.ReplaceAllString(text, "]")) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func tooLong(f source, longPage bool) []string {
	var faults []string
	all := 0
	for _, b := range blocksOf(f.text) {
		if b.kind == cell && strings.Trim(codeSpan.ReplaceAllString(b.text, ""), ", ") == "" {
			continue // a list of names, which is searched and not read
		}
		n := wordsIn(b.text)
		all += n
		if limit := map[string]int{paragraph: maxParagraph, cell: maxCell, heading: maxCell}[b.kind]; n > limit {
			faults = append(faults, fmt.Sprintf("%s:%d: a %s of %d words, more than %d: split it", f.name, b.line, b.kind, n, limit))
		}
	}
	if all > maxPage && !longPage {
		faults = append(faults, fmt.Sprintf("%s has %d words, more than %d: it has more than one purpose", f.name, all, maxPage))
	}
	return faults
}

// unwrapped returns the lines that are too long, apart from tables, code and links.
func unwrapped(f source) []string {
	var faults []string
	code := false
	for i, line := range strings.Split(string(f.text), "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		isProse := !code && !strings.HasPrefix(line, "|") && !strings.Contains(line, "](")
		if n := utf8.RuneCountInString(line); isProse && n > maxColumns {
			faults = append(faults, fmt.Sprintf("%s:%d: a line of %d columns, more than %d: wrap it", f.name, i+1, n, maxColumns))
		}
	}
	return faults
}

func hardToRead(f source) []string {
	var faults []string
	words := 0
	for _, b := range blocksOf(f.text) {
		words += wordsIn(b.text)
		for _, pattern := range hardPatterns(codeSpan.ReplaceAllString(b.text, "`")) {
			faults = append(faults, fmt.Sprintf("%s:%d: %q is hard to read", f.name, b.line, pattern))
		}
	}
	// A short page may hold a few as well.
	if len(faults) <= maxHardInDocs || perThousand(len(faults), words) <= maxHardInDocs {
		return nil
	}
	return append(faults, fmt.Sprintf("%s: %d hard patterns in %d words, more than %d in 1,000", f.name, len(faults), words, maxHardInDocs))
}

// brokenLinks returns the faults of a page's relative links. read returns a file of the module. For
// a folder, it fails with an error that is not fs.ErrNotExist.
func brokenLinks(f source, read func(name string) ([]byte, error)) []string {
	var faults []string
	for _, b := range blocksOf(f.text) {
		for _, link := range target.FindAllStringSubmatch(codeSpan.ReplaceAllString(b.text, "`"), -1) {
			if fault := brokenLink(f, link[1], read); fault != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: the link %s leads nowhere: %s", f.name, b.line, link[1], fault))
			}
		}
	}
	return faults
}

func brokenLink(f source, link string, read func(name string) ([]byte, error)) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	name, text := f.name, f.text
	if u.Path != "" {
		name = path.Join(path.Dir(f.name), u.Path)
		if text, err = read(name); errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(name, "../") {
			return name + " does not exist"
		}
	}
	if u.Fragment != "" && !slices.Contains(anchorsOf(text), u.Fragment) {
		return name + " has no heading of that name"
	}
	return ""
}

// anchorsOf returns the anchors that GitHub gives to the headings of a page:
// lower case, without punctuation, a hyphen for each space, and a number
// behind a repeated one.
func anchorsOf(page []byte) []string {
	var anchors []string
	seen := map[string]int{}
	for _, b := range blocksOf(page) {
		if b.kind != heading {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, target.ReplaceAllString(b.text, "]"))
		n := seen[anchor]
		seen[anchor]++
		if n > 0 {
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}

const faultyPage = "# A `page`, [twice](x.md)\n" + `
<!-- [not](a-link.md) -->
See [here](#a-page-twice), [there](#there), [a file](b.md#take-it), [no heading](b.md#leave-it), [a
folder](folder), [no file](c.md), [outside](../../d.md), [elsewhere](https://example.com/#x).

## Take, it
## Take, it

> one two
> three
- four – five
  six
- [seven](a-long-target-of-a-link.md)

| a \| b | c |
|---|--:|
| d | [e f](g.md) |
` + "\n```\n# [code](no.md)\n```\n"

func TestBlocksOfFinds(t *testing.T) {
	t.Parallel()
	want := []block{
		{heading, 1, "A `page`, [twice](x.md)"},
		{paragraph, 4, "See [here](#a-page-twice), [there](#there), [a file](b.md#take-it), [no heading](b.md#leave-it), [a\n" +
			"folder](folder), [no file](c.md), [outside](../../d.md), [elsewhere](https://example.com/#x)."},
		{heading, 7, "Take, it"},
		{heading, 8, "Take, it"},
		{paragraph, 10, "one two\nthree"},
		{paragraph, 12, "four – five\nsix"},
		{paragraph, 14, "[seven](a-long-target-of-a-link.md)"},
		{cell, 16, `a \| b`},
		{cell, 16, "c"},
		{cell, 18, "d"},
		{cell, 18, "[e f](g.md)"},
	}
	got := blocksOf([]byte(faultyPage))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(block{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a-page-twice", "take-it", "take-it-1"}, anchorsOf([]byte(faultyPage))); diff != "" {
		t.Errorf("anchors (-want +got)\n%s", diff)
	}
	for text, want := range map[string]int{"four – five\nsix": 3, "[e f](g h.md)": 2, "a \\| b": 2, "– * |": 0} {
		if got := wordsIn(text); got != want {
			t.Errorf("%q has %d words, want %d", text, got, want)
		}
	}
}

func TestBrokenLinksFinds(t *testing.T) {
	t.Parallel()
	read := func(name string) ([]byte, error) {
		switch name {
		case "docs/b.md", "docs/x.md", "docs/g.md", "docs/a-long-target-of-a-link.md":
			return []byte("## Take it\n"), nil
		case "docs/folder":
			return nil, errors.New("is a folder")
		}
		return nil, fs.ErrNotExist
	}
	want := []string{
		"docs/a.md:4: the link #there leads nowhere: docs/a.md has no heading of that name",
		"docs/a.md:4: the link b.md#leave-it leads nowhere: docs/b.md has no heading of that name",
		"docs/a.md:4: the link c.md leads nowhere: docs/c.md does not exist",
		"docs/a.md:4: the link ../../d.md leads nowhere: ../d.md does not exist",
	}
	if diff := cmp.Diff(want, brokenLinks(source{"docs/a.md", []byte(faultyPage)}, read)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTooLongFinds(t *testing.T) {
	t.Parallel()
	page := func(before string, words int, after string) source {
		return source{"a.md", []byte(before + strings.Repeat("word ", words) + after)}
	}
	for _, tt := range []struct {
		page source
		long bool
		want []string
	}{
		{page("", maxParagraph, ""), false, nil},
		{page("\n", maxParagraph+1, ""), false, []string{"a.md:2: a paragraph of 61 words, more than 60: split it"}},
		{page("- an item\n- ", maxParagraph+1, ""), false, []string{"a.md:2: a paragraph of 61 words, more than 60: split it"}},
		{page("| a | ", maxCell, "|\n"), false, nil},
		{page("| a | `", maxCell+1, "` |\n"), false, nil},
		{page("| a | ", maxCell+1, "|\n"), false, []string{"a.md:1: a table cell of 26 words, more than 25: split it"}},
		{page("```\n", 3*maxPage, "\n```\n"), false, nil},
		{page("<!-- x: written by make bench -->\n| a | ", maxCell+1, "|\n<!-- end of x -->\n"), false, nil},
		{page("<!-- x: written by make bench -->\n<!-- end of x -->\n| a | ", maxCell+1, "|\n"), false, []string{"a.md:3: a table cell of 26 words, more than 25: split it"}},
		{source{"a.md", []byte(strings.Repeat("word\n\n", maxPage+1))}, false, []string{"a.md has 2501 words, more than 2500: it has more than one purpose"}},
		{source{"a.md", []byte(strings.Repeat("word\n\n", maxPage+1))}, true, nil},
	} {
		if diff := cmp.Diff(tt.want, tooLong(tt.page, tt.long)); diff != "" {
			t.Errorf("%.40q (-want +got)\n%s", tt.page.text, diff)
		}
	}
}

func TestUnwrappedFinds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxColumns+1)
	page := source{"a.md", []byte(long[1:] + "\n" + long + "\n| " + long + " |\n```\n" + long + "\n```\n[a](" + long + ")\n")}
	if diff := cmp.Diff([]string{"a.md:2: a line of 121 columns, more than 120: wrap it"}, unwrapped(page)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHardToReadFinds(t *testing.T) {
	t.Parallel()
	easy := strings.Repeat("word ", 900)
	for _, tt := range []struct {
		text string
		want int // patterns, and one line about the page
	}{
		{easy + strings.Repeat("whoever ", 3), 0},
		{easy + strings.Repeat("whoever ", 4), 5},
		{easy + strings.Repeat("`whoever` ", 4), 0},
		{easy + "\n```\n" + strings.Repeat("whoever ", 4) + "\n```\n", 0},
	} {
		if got := hardToRead(source{"a.md", []byte(tt.text)}); len(got) != tt.want {
			t.Errorf("found %q, want %d", got, tt.want)
		}
	}
}
