package deps

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// ownWaits are the files whose tests may say how long they wait, and why.
var ownWaits = map[string]string{
	"internal/relay/complete_test.go":             "the fake store of a bubble has a time of its own",
	"internal/work/busy_test.go":                  "the fake database of a bubble has a time of its own",
	"internal/test/failover/faults_linux_test.go": "a fault lasts for a while",
	"internal/test/pages/world_test.go":           "operators are promised that the gateway ends within 30 s",
}

// A wait with a bound of its own fails on a slow machine. internal/test/eventually holds the one bound.
func TestWaitsHaveOneBound(t *testing.T) {
	t.Parallel()
	isWaiting := func(name string) bool {
		ownModule := strings.HasPrefix(name, "internal/test/sdk/") || strings.HasPrefix(name, "internal/test/acme/")
		return isGo(name) && (isTest(name) || strings.HasPrefix(name, "internal/test/")) && !ownModule &&
			path.Dir(name) != "internal/test/eventually"
	}
	set, found := token.NewFileSet(), map[string]bool{}
	for _, f := range files(t, isWaiting) {
		for _, pos := range waits(parse(t, set, f)) {
			found[f.name] = true
			if ownWaits[f.name] == "" {
				t.Errorf("%s: wait by internal/test/eventually, or at most for its Bound", set.Position(pos))
			}
		}
	}
	for name := range ownWaits {
		if !found[name] {
			t.Errorf("%s has no wait of its own: remove it from ownWaits", name)
		}
	}
}

// waits finds comparisons with time.Now, and timers whose end fails a test or is kept for a loop, unless they
// last for eventually.Bound.
func waits(tree *ast.File) []token.Pos {
	clock := importName(tree, "time")
	var found []token.Pos
	ends := func(n ast.Node) bool { // whether n contains a timer with another bound
		return contains(n, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			return ok && isSelector(call.Fun, clock, "After") && !contains(call, func(n ast.Node) bool {
				e, ok := n.(ast.Expr)
				return ok && isSelector(e, "eventually", "Bound")
			})
		})
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			now, ok := n.X.(*ast.CallExpr)
			if ok && isSelector(now.Fun, clock, "Now") && (n.Sel.Name == "After" || n.Sel.Name == "Before") {
				found = append(found, n.Pos())
			}
		case *ast.CommClause:
			if n.Comm != nil && ends(n.Comm) && slices.ContainsFunc(n.Body, func(s ast.Stmt) bool { return contains(s, isFailure) }) {
				found = append(found, n.Pos())
			}
		case *ast.AssignStmt:
			if slices.ContainsFunc(n.Rhs, func(e ast.Expr) bool {
				call, ok := e.(*ast.CallExpr)
				return ok && isSelector(call.Fun, clock, "After") && ends(e)
			}) {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

func isFailure(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && slices.Contains([]string{"Fatal", "Fatalf", "Error", "Errorf"}, calledName(call))
}

// contains reports whether is holds for n or a node below it.
func contains(n ast.Node, is func(ast.Node) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || n != nil && is(n)
		return !found
	})
	return found
}

func TestWaitsFinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"for time.Now().Before(end) {}": 1, "if time.Now().After(end) {}": 1, "late := time.After(d)": 1,
		"select { case <-time.After(d): t.Fatal() }":                       1,
		"select { case <-time.After(d): if x { p.kill(); t.Errorf(``) } }": 1,
		"select { case <-time.After(eventually.Bound): t.Fatal() }":        0,
		"select { case <-time.After(d): x() }":                             0,
		"<-time.After(d)":                                                  0,
		"late := time.After(4*eventually.Bound); at := time.Now().Add(d)":  0,
	} {
		tree := parse(t, token.NewFileSet(), source{text, []byte(`package p; import "time"; func f() {` + text + `}`)})
		if got := len(waits(tree)); got != want {
			t.Errorf("%s: found %d, want %d", text, got, want)
		}
	}
}
