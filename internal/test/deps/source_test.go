package deps

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// root is the module's folder, seen from this package.
var root = filepath.Join("..", "..", "..")

const maxLines = 500

// source is one text file of the project.
type source struct {
	name string // within the module, with slashes
	text []byte
}

// sources returns the project's text files: those that git knows or would
// take, or, where there is no git, all.
var sources = sync.OnceValues(func() ([]source, error) {
	known := tracked()
	var list []source
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if known != nil && !known[name] {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !bytes.ContainsRune(text, 0) {
			list = append(list, source{name, text})
		}
		return nil
	})
	return list, err
})

func tracked() map[string]bool {
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		return nil
	}
	known := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		known[name] = true
	}
	return known
}

// files returns the sources that a rule is about.
func files(t *testing.T, about func(name string) bool) []source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	var list []source
	for _, f := range all {
		if about(f.name) {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		t.Fatal("no file found to look at")
	}
	return list
}

func isGo(name string) bool   { return strings.HasSuffix(name, ".go") }
func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

func parse(t *testing.T, set *token.FileSet, f source) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(set, f.name, f.text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestFileLength(t *testing.T) {
	t.Parallel()
	for _, f := range files(t, isGo) {
		if n := bytes.Count(f.text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, more than %d: it is about more than one thing", f.name, n, maxLines)
		}
	}
}

// A client that hangs up ends its request's context; a claim that is under way
// must not end with it. So a request's context goes only where named here.
func TestRequestContextEndsNoClaim(t *testing.T) {
	t.Parallel()
	takers := []string{
		"WithoutCancel", // drops the end, keeps the values
		"activeKeys",    // the user's own look-up of secrets, before anything is claimed
	}
	set := token.NewFileSet()
	inRoot := func(name string) bool { return isGo(name) && !isTest(name) && path.Dir(name) == "." }
	for _, f := range files(t, inRoot) {
		for _, call := range requestContexts(parse(t, set, f)) {
			if !slices.Contains(takers, call.taker) {
				t.Errorf("%s: a request's context may end at any moment: pass it only to one of %q", set.Position(call.pos), takers)
			}
		}
	}
}

// contextCall is a call x.Context(), and the function it is an argument of.
type contextCall struct {
	pos   token.Pos
	taker string // "" if it is no argument
}

func requestContexts(tree *ast.File) []contextCall {
	var found []contextCall
	ast.PreorderStack(tree, nil, func(n ast.Node, stack []ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 || calledName(call) != "Context" {
			return true
		}
		var taker string
		if outer, ok := stack[len(stack)-1].(*ast.CallExpr); ok && slices.Contains(outer.Args, ast.Expr(call)) {
			taker = calledName(outer)
		}
		found = append(found, contextCall{call.Pos(), taker})
		return true
	})
	return found
}

func calledName(call *ast.CallExpr) string {
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
		return selector.Sel.Name
	}
	return ""
}

// A test that sleeps is slow where it need not be and fails where it must not.
// Inside of synctest.Test time is the test's own, and sleeping is waiting for
// an event.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	for _, f := range files(t, isTest) {
		for _, pos := range sleeps(parse(t, set, f)) {
			t.Errorf("%s: wait for an event, or test in testing/synctest", set.Position(pos))
		}
	}
}

func sleeps(tree *ast.File) []token.Pos {
	clock, bubble := importName(tree, "time"), importName(tree, "testing/synctest")
	var found []token.Pos
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && isSelector(call.Fun, bubble, "Test") {
			return false
		}
		selector, ok := n.(*ast.SelectorExpr)
		if ok && isSelector(selector, clock, "Sleep") {
			found = append(found, selector.Pos())
		}
		return true
	})
	return found
}

// importName returns a file's name for a package, or "" if the file does not import it.
func importName(tree *ast.File, importPath string) string {
	for _, spec := range tree.Imports {
		if spec.Path.Value != `"`+importPath+`"` {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

func isSelector(e ast.Expr, x, name string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	ident, ok := selector.X.(*ast.Ident)
	return ok && ident.Name == x
}

// machinePath matches paths of one particular machine. The words are split so that this file does
// not match.
var machinePath = regexp.MustCompile(`\.\./sha` + `red\b|(^|[^A-Za-z0-9._-])/(wo` + `rk|ro` + `ot)/`)

func TestNoMachinePaths(t *testing.T) {
	t.Parallel()
	// .ci/run may look beside the checkout for recorded data.
	for _, f := range files(t, func(name string) bool { return !strings.HasPrefix(name, ".ci/") }) {
		for i, line := range strings.Split(string(f.text), "\n") {
			if found := machinePath.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is a path of one machine", f.name, i+1, found)
			}
		}
	}
}
