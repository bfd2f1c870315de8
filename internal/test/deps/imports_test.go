package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed is what go list tells of a package.
type listed struct {
	ImportPath   string
	Name         string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// folder returns the package's folder within the module, "" if it is not of
// the module.
func (p *listed) folder() string { return folderOf(p.ImportPath) }

func folderOf(importPath string) string {
	if importPath == module {
		return "."
	}
	if rest, ok := strings.CutPrefix(importPath, module+"/"); ok {
		return rest
	}
	return ""
}

// packages returns the module's packages and all that they need, by path.
var packages = sync.OnceValues(func() (map[string]*listed, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Name,Standard,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New("go list: " + err.Error() + ": " + stderr.String())
	}
	all := map[string]*listed{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := decoder.Decode(p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

// ours returns the packages of this module, sorted.
func ours(t *testing.T) (own []*listed, all map[string]*listed) {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].folder() != "" {
			own = append(own, all[name])
		}
	}
	if len(own) == 0 {
		t.Fatalf("go list found no package of %s", module)
	}
	return own, all
}

func isStandard(all map[string]*listed, importPath string) bool {
	if p := all[importPath]; p != nil {
		return p.Standard
	}
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func hasPrefix(list []string, importPath string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		return importPath == p || strings.HasPrefix(importPath, p+"/")
	})
}

func TestImports(t *testing.T) {
	t.Parallel()
	own, all := ours(t)
	for _, p := range own {
		r, ok := rules[p.folder()]
		if !ok {
			t.Errorf("%s has no rule: name its imports and their reason in internal/test/deps, and its purpose in docs/architecture.md",
				p.folder())
			continue
		}
		for _, imported := range p.Imports {
			allowed := isStandard(all, imported) || hasPrefix(r.modules, imported)
			if f := folderOf(imported); f != "" {
				allowed = slices.Contains(r.within, f)
			}
			if !allowed {
				t.Errorf("%s must not import %s: %s", p.folder(), imported, r.why)
			}
		}
	}
}

func TestImportsOfTests(t *testing.T) {
	t.Parallel()
	own, all := ours(t)
	for _, p := range own {
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if folderOf(imported) == "" && !isStandard(all, imported) && !hasPrefix(testModules, imported) &&
				!hasPrefix(rules[p.folder()].modules, imported) {
				t.Errorf("the tests of %s must not import %s: it is not among testModules of internal/test/deps", p.folder(), imported)
			}
		}
	}
}

func TestLean(t *testing.T) {
	t.Parallel()
	_, all := ours(t)
	for _, folder := range lean {
		start := path.Join(module, folder)
		if all[start] == nil {
			t.Errorf("%s is not there", folder)
			continue
		}
		if chain := foreign(all, start); chain != nil {
			t.Errorf("%s must build from the standard library, golang.org/x and leanModules alone, but: %s", folder, strings.Join(chain, " → "))
		}
	}
}

// foreign returns a shortest chain of imports from a package to one that lean packages
// must not link, nil if there is none.
func foreign(all map[string]*listed, start string) []string {
	from := map[string]string{start: ""}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if folderOf(at) == "" && !isStandard(all, at) && !isLean(at) {
			var chain []string
			for ; at != ""; at = from[at] {
				chain = append(chain, at)
			}
			slices.Reverse(chain)
			return chain
		}
		if p := all[at]; p != nil && !p.Standard {
			for _, next := range p.Imports {
				if _, seen := from[next]; !seen {
					from[next] = at
					queue = append(queue, next)
				}
			}
		}
	}
	return nil
}

// isLean reports whether lean packages may link a package of another module.
func isLean(importPath string) bool {
	return hasPrefix([]string{"golang.org/x"}, importPath) || hasPrefix(slices.Collect(maps.Keys(leanModules)), importPath)
}

func TestLeanModulesRequireNothing(t *testing.T) {
	t.Parallel()
	for name := range leanModules {
		var found struct{ GoMod string }
		goJSON(t, &found, "list", "-m", "-json", name)
		var file struct{ Require []struct{ Path string } }
		goJSON(t, &file, "mod", "edit", "-json", found.GoMod)
		for _, required := range file.Require {
			if !hasPrefix(testModules, required.Path) {
				t.Errorf("%s requires %s: a user of the library would get it too", name, required.Path)
			}
		}
	}
}

// goJSON runs the go command and decodes its output.
func goJSON(t *testing.T, to any, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", arguments...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(arguments, " "), err)
	}
	if err := json.Unmarshal(out, to); err != nil {
		t.Fatal(err)
	}
}

func TestTestSupportStaysInTests(t *testing.T) {
	t.Parallel()
	own, _ := ours(t)
	for _, p := range own {
		if slices.Contains(testSupport, p.folder()) {
			continue
		}
		for _, imported := range p.Imports {
			if imported == "testing" || slices.Contains(testSupport, folderOf(imported)) {
				t.Errorf("%s must not import %s: only tests may", p.folder(), imported)
			}
		}
	}
}

func TestPackageNames(t *testing.T) {
	t.Parallel()
	own, _ := ours(t)
	for _, p := range own {
		names := append(strings.Split(p.folder(), "/"), p.Name)
		if i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(drawers, name) }); i >= 0 {
			t.Errorf("%s: no package is named %q; name it after what it is about", p.folder(), names[i])
		}
	}
}

// The table in docs/architecture.md has the folders of the rules.
func TestRulesAndArchitectureAgree(t *testing.T) {
	t.Parallel()
	_, all := ours(t)
	for folder := range rules {
		// A rule for a missing package would later allow another package of that name.
		if all[path.Join(module, folder)] == nil {
			t.Errorf("there is a rule for %s, but no such package", folder)
		}
	}
	want := slices.Sorted(maps.Keys(rules))
	if diff := cmp.Diff(want, foldersInTable(t)); diff != "" {
		t.Errorf("docs/architecture.md has other folders (-rules +table)\n%s", diff)
	}
}

var inBackticks = regexp.MustCompile("`([^`]*)`")

// foldersInTable reads the first column of the table in docs/architecture.md, sorted. The root is "/" there and "."
// here.
func foldersInTable(t *testing.T) (folders []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| folder | what it is |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		for _, token := range inBackticks.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			folders = append(folders, path.Join(".", token[1]))
		}
	}
	slices.Sort(folders)
	return folders
}
