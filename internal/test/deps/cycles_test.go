package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxCycle is how many files of the root may depend on each other in a circle. The Engine is one
// conversation with a sender, and a source is another one with its settings, so circles remain.
const maxCycle = 10

func isRootGo(name string) bool { return isGo(name) && path.Dir(name) == "." }

// references maps a file to the files that declare what it uses, and to the names it uses of each.
type references map[string]map[string][]string

func TestFilesOfTheRootFormNoLargeCycle(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	var trees []*ast.File
	for _, f := range files(t, func(name string) bool { return isRootGo(name) && !isTest(name) }) {
		trees = append(trees, parse(t, set, f))
	}
	refs, err := referencesOf(set, trees, compiled(t))
	if err != nil {
		t.Fatal(err)
	}
	cycle := largestCycle(refs)
	t.Logf("the largest cycle has %d of %d files: %s", len(cycle), len(trees), strings.Join(cycle, " "))
	if len(cycle) <= maxCycle {
		return
	}
	for _, from := range cycle {
		for _, to := range slices.Sorted(maps.Keys(refs[from])) {
			if slices.Contains(cycle, to) {
				t.Logf("%s uses of %s: %s", from, to, strings.Join(refs[from][to], ", "))
			}
		}
	}
	t.Errorf("%d files depend on each other, more than %d: move code that several of them use below them", len(cycle), maxCycle)
}

// compiled returns an importer of all packages that the root imports, directly or not.
func compiled(t *testing.T) types.Importer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Export", ".")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(importPath string) (io.ReadCloser, error) {
		if exports[importPath] == "" {
			return nil, fmt.Errorf("go list compiled no %s", importPath)
		}
		return os.Open(exports[importPath])
	})
}

// referencesOf type-checks the files of one package. References of a file to itself are left out.
func referencesOf(set *token.FileSet, trees []*ast.File, imports types.Importer) (references, error) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	pkg, err := config.Check(module, set, trees, info)
	if err != nil {
		return nil, err
	}
	refs := references{}
	for _, tree := range trees {
		refs[set.Position(tree.Package).Filename] = map[string][]string{}
	}
	for ident, object := range info.Uses {
		from, to := set.Position(ident.Pos()).Filename, set.Position(object.Pos()).Filename
		if object.Pkg() == pkg && from != to && !slices.Contains(refs[from][to], object.Name()) {
			refs[from][to] = append(refs[from][to], object.Name())
		}
	}
	for _, used := range refs {
		for _, names := range used {
			slices.Sort(names)
		}
	}
	return refs, nil
}

// largestCycle returns the files of the largest strongly connected component, sorted. A file that is in
// no circle is a component of its own.
func largestCycle(refs references) []string {
	reach := map[string]map[string]bool{}
	for from := range refs {
		reach[from] = reachable(refs, from)
	}
	var largest []string
	for _, from := range slices.Sorted(maps.Keys(refs)) {
		var cycle []string
		for to := range reach[from] {
			if reach[to][from] {
				cycle = append(cycle, to)
			}
		}
		if len(cycle) > len(largest) {
			largest = cycle
		}
	}
	slices.Sort(largest)
	return largest
}

// reachable returns the files that from depends on, directly or not, and from itself.
func reachable(refs references, from string) map[string]bool {
	seen := map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for next := range refs[queue[0]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return seen
}

func TestLargestCycleFinds(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	var trees []*ast.File
	for _, f := range []source{
		{"a.go", []byte("package p; func a(b list[int]) { b.add() }")},                                       // a method of b
		{"b.go", []byte("package p; type list[T any] struct{}; func (list[T]) add() { _ = config{}.size }")}, // a type and a field of c
		{"c.go", []byte("package p; type config struct{ size int }; var _ = a")},                             // a function of a
		{"d.go", []byte("package p; const d = e; var _ = config{}")},
		{"e.go", []byte("package p; const e = 1; var _ = d")},
		{"f.go", []byte("package p; var a1, f = a, 1; func (list[T]) size(a int) int { return a + f }")},
	} {
		trees = append(trees, parse(t, set, f))
	}
	refs, err := referencesOf(set, trees, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.go", "b.go", "c.go"}, largestCycle(refs)); diff != "" {
		t.Errorf("the largest cycle (-want +got)\n%s", diff)
	}
	want := references{
		"a.go": {"b.go": {"add", "list"}}, "b.go": {"c.go": {"config", "size"}}, "c.go": {"a.go": {"a"}},
		"d.go": {"c.go": {"config"}, "e.go": {"e"}}, "e.go": {"d.go": {"d"}}, "f.go": {"a.go": {"a"}, "b.go": {"list"}},
	}
	if diff := cmp.Diff(want, refs); diff != "" {
		t.Errorf("references (-want +got)\n%s", diff)
	}
}
