package deps

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secretCompares are the functions that compare input of a stranger with a secret, or with something that only
// a secret can make.
var secretCompares = []string{
	"hookadmin.accessOf", "hookadmin.action", "hookadmin.started", "hookadmin.unseal",
	"hookonce.knows",
	"provider.checks",
	"verify.holds", "verify.match", "verify.matchTokens", "verify.signedBy",
}

// How long a compare takes cannot be asserted on a busy machine. Which compare it is can.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	var found []string
	for _, f := range files(t, func(name string) bool {
		return isGo(name) && !isTest(name) && !strings.HasPrefix(name, "internal/test/")
	}) {
		for _, decl := range parse(t, token.NewFileSet(), f).Decls {
			in, isFunc := decl.(*ast.FuncDecl)
			if !isFunc {
				continue
			}
			if constant, early := compares(in); constant {
				found = append(found, packageOf(f)+"."+in.Name.Name)
				if early != "" {
					t.Errorf("%s: %s also calls %s, which ends at the first byte that differs", f.name, in.Name.Name, early)
				}
			}
		}
	}
	slices.Sort(found)
	if diff := cmp.Diff(secretCompares, found); diff != "" {
		t.Errorf("functions that compare in constant time (-listed +found):\n%s", diff)
	}
}

func packageOf(f source) string {
	if dir := path.Dir(f.name); dir != "." {
		return dir
	}
	return "hookonce"
}

// compares reports whether a function compares in constant time, and a function it calls that does not.
func compares(in *ast.FuncDecl) (constant bool, early string) {
	ast.Inspect(in, func(n ast.Node) bool {
		called, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, _ := called.X.(*ast.Ident)
		if of == nil {
			return true
		}
		switch name := of.Name + "." + called.Sel.Name; name {
		case "subtle.ConstantTimeCompare", "hmac.Equal":
			constant = true
		case "bytes.Equal", "bytes.Compare", "bytes.HasPrefix", "slices.Equal", "slices.Contains", "strings.EqualFold", "strings.HasPrefix", "reflect.DeepEqual":
			early = name
		}
		return true
	})
	return constant, early
}
