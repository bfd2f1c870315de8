package pages

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const adminRoutes = "GET  /api/v1/events?source=&type=&state=&destination=&note=&id=&q=&since=&until=&limit=&cursor="

var adminPath = regexp.MustCompile(` /\S+`)

// The page lists the routes of the OpenAPI document, each with its parameters unless words stand for them.
func TestAdminRoutes(t *testing.T) {
	t.Parallel()
	documented := documentedRoutes(t)
	shown := map[string][]string{}
	for _, b := range blocksOf(read(t, "docs/admin-api.md")) {
		if b.first() != adminRoutes {
			continue
		}
		for line := range strings.Lines(b.text) {
			method, _, _ := strings.Cut(line, " ")
			for _, path := range adminPath.FindAllString(line, -1) {
				path, query, _ := strings.Cut(strings.TrimSpace(path), "?")
				values, err := url.ParseQuery(query)
				if err != nil {
					t.Fatal(err)
				}
				route := method + " " + path
				if shown[route] = slices.Sorted(maps.Keys(values)); strings.Contains(line, "same parameters") {
					shown[route] = documented[route]
				}
			}
		}
	}
	if diff := cmp.Diff(documented, shown); diff != "" {
		t.Errorf("routes (-document +page):\n%s", diff)
	}
}

// documentedRoutes returns the parameters in the query of each route, "GET /path".
func documentedRoutes(t *testing.T) map[string][]string {
	t.Helper()
	type parameter struct {
		Ref      string `json:"$ref"`
		Name, In string
	}
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Parameters map[string]parameter }
	}
	raw, err := os.ReadFile(filepath.Join(repository, "hookadmin", "openapi.json"))
	if err == nil {
		err = json.Unmarshal(raw, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string][]string{}
	for path, methods := range document.Paths {
		var shared []parameter
		if all, ok := methods["parameters"]; ok {
			if err := json.Unmarshal(all, &shared); err != nil {
				t.Fatal(err)
			}
			delete(methods, "parameters")
		}
		for method, text := range methods {
			var operation struct{ Parameters []parameter }
			if err := json.Unmarshal(text, &operation); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range slices.Concat(shared, operation.Parameters) {
				if p.Ref != "" {
					p = document.Components.Parameters[p.Ref[strings.LastIndex(p.Ref, "/")+1:]]
				}
				if p.In == "query" {
					names = append(names, p.Name)
				}
			}
			slices.Sort(names)
			routes[strings.ToUpper(method)+" "+path] = names
		}
	}
	return routes
}
