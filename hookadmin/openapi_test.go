package hookadmin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/problem"
)

// schema is the part of JSON Schema that the document uses.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format               string
	Pattern              string
	Enum                 []string
	Required             []string
	Properties           map[string]*schema
	AdditionalProperties *schema
	Items                *schema
	AnyOf                []*schema
	MaxItems             int
	Minimum, Maximum     int
	MaxLength            int
	Default              any
	ContentEncoding      string
	Description          string
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Required    bool
	Schema      *schema
	Description string
}

type content map[string]struct{ Schema *schema }

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     content
	Headers     map[string]any
}

type operation struct {
	OperationID string
	Summary     string
	Description string
	Security    []map[string][]string
	Parameters  []parameter
	RequestBody *struct {
		Required bool
		Content  content
	}
	Responses map[string]response
}

type openAPI struct {
	OpenAPI    string
	Info       map[string]any
	Servers    []map[string]string
	Security   []map[string][]string
	Paths      map[string]map[string]*operation
	Components struct {
		SecuritySchemes map[string]map[string]string
		Parameters      map[string]parameter
		Responses       map[string]response
		Schemas         map[string]*schema
	}
}

// document is the OpenAPI document of the API. A key that these tests do not know is an error,
// because they would not check it.
var document = sync.OnceValue(func() *openAPI {
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		panic(err)
	}
	doc := new(openAPI)
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(doc); err != nil {
		panic(err)
	}
	return doc
})

// follow returns the component that a reference names.
func follow[Component any](ref, kind string, all map[string]Component) Component {
	name, ok := strings.CutPrefix(ref, "#/components/"+kind+"/")
	if to, there := all[name]; ok && there {
		return to
	}
	panic("the reference leads nowhere: " + ref)
}

func (s *schema) resolve() *schema {
	if s.Ref == "" {
		return s
	}
	return follow(s.Ref, "schemas", document().Components.Schemas)
}

func (r response) resolve() response {
	if r.Ref == "" {
		return r
	}
	return follow(r.Ref, "responses", document().Components.Responses)
}

func (p parameter) resolve() parameter {
	if p.Ref == "" {
		return p
	}
	return follow(p.Ref, "parameters", document().Components.Parameters)
}

func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	resp := newGateway(t).get(t, "/api/v1/openapi.json")
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, readJSON[any](t, resp)); diff != "" || resp.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s (-want +got):\n%s", resp.header.Get("Content-Type"), diff)
	}
	if !strings.HasPrefix(document().OpenAPI, "3.1.") {
		t.Errorf("version %q", document().OpenAPI)
	}
}

func TestOpenAPIDescribesAllEndpoints(t *testing.T) {
	t.Parallel()
	var served, described []string
	for _, e := range hookadmin.Endpoints() {
		served = append(served, e.Method+" "+e.Path)
		op := document().Paths[e.Path][strings.ToLower(e.Method)]
		if op == nil {
			t.Errorf("%s %s is not described", e.Method, e.Path)
			continue
		}
		var query, path []string
		for _, p := range op.Parameters {
			switch p = p.resolve(); p.In {
			case "query":
				query = append(query, p.Name)
			case "path":
				path = append(path, "{"+p.Name+"}")
			}
		}
		if diff := cmp.Diff(e.Query, query); diff != "" {
			t.Errorf("%s: parameters (-served +described):\n%s", e.Path, diff)
		}
		if diff := cmp.Diff(regexp.MustCompile(`\{\w+\}`).FindAllString(e.Path, -1), path); diff != "" {
			t.Errorf("%s: names in the path (-served +described):\n%s", e.Path, diff)
		}
		if (op.RequestBody != nil) != (e.Method == "POST") {
			t.Errorf("%s: request body %v", e.Path, op.RequestBody)
		}
	}
	for path, methods := range document().Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("-served +described:\n%s", diff)
	}
}

// shapes returns the structs of the API by the name of their schema.
func shapes() map[string]reflect.Type {
	all := make(map[string]reflect.Type)
	for _, v := range []any{
		hookadmin.EventPage{},
		hookadmin.EventDetail{},
		hookadmin.DeadLetterPage{},
		hookadmin.ErrorPage{},
		hookadmin.JobPage{},
		hookadmin.Undone{},
		hookadmin.Accepted{},
		hookadmin.MessagePage{},
		hookadmin.Replayed{},
		hookadmin.Redacted{},
		hookadmin.Worked{},
		hookadmin.Retried{},
		hookadmin.QuarantinePage{},
		hookadmin.QuarantineRetried{},
		hookadmin.SourcePage{},
		hookadmin.RoutePage{},
		hookadmin.DestinationPage{},
		hookadmin.DestinationPaused{},
		hookadmin.DestinationRetried{},
		hookadmin.Stats{},
		hookadmin.SeriesPage{},
		hookadmin.RefusedPage{},
		hookadmin.RefusedGroupPage{},
		hookadmin.SearchPage{},
		hookadmin.StreamRow{},
		hookadmin.Health{},
		hookadmin.Gateway{},
		hookadmin.WarningPage{},
	} {
		collect(all, reflect.TypeOf(v))
	}
	all["ReplayRequest"] = reflect.TypeFor[hookadmin.ReplayRequest]()
	all["DeadLettersRequest"] = reflect.TypeFor[hookadmin.DeadLettersRequest]()
	all["JobRequest"], all["JobFilter"] = reflect.TypeFor[hookadmin.JobRequest](), reflect.TypeFor[hookadmin.JobFilter]()
	all["UndoRequest"] = reflect.TypeFor[hookadmin.UndoRequest]()
	all["RetryRequest"] = reflect.TypeFor[struct{}]()
	all["Problem"] = reflect.TypeFor[problem.Problem]()
	return all
}

// collect adds typ and the structs inside it.
func collect(all map[string]reflect.Type, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[hookadmin.Time]() {
		return
	}
	all[typ.Name()] = typ
	for f := range fields(typ) {
		collect(all, typ.FieldByIndex(f.Index).Type)
	}
}

// fields yields the fields that appear in JSON, including promoted fields that are not hidden.
func fields(typ reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		hidden := make(map[string]bool)
		for _, f := range reflect.VisibleFields(typ) {
			if len(f.Index) == 1 && !f.Anonymous {
				hidden[jsonName(f)] = true
			}
		}
		for _, f := range reflect.VisibleFields(typ) {
			if f.Anonymous || len(f.Index) > 1 && hidden[jsonName(f)] {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// kindOf returns the type of a field in the form of kindOfSchema.
func kindOf(f reflect.StructField) string {
	typ, null := f.Type, ""
	if typ.Kind() == reflect.Pointer {
		typ, null = typ.Elem(), " or null"
		if strings.Contains(f.Tag.Get("json"), ",omit") {
			null = ""
		}
	}
	switch {
	case typ == reflect.TypeFor[hookadmin.Time]():
		if strings.Contains(f.Tag.Get("json"), ",omit") {
			return "string"
		}
		return "string or null"
	case strings.HasSuffix(f.Tag.Get("json"), ",string"):
		return "string" + null
	case typ == reflect.TypeFor[[]byte]():
		return "string or null"
	}
	return map[reflect.Kind]string{
		reflect.String: "string", reflect.Int: "integer", reflect.Float64: "number", reflect.Bool: "boolean",
		reflect.Slice: "array", reflect.Struct: "object", reflect.Map: "object or null",
	}[typ.Kind()] + null
}

func kindOfSchema(s *schema) string {
	s = s.resolve()
	if len(s.AnyOf) == 2 {
		return kindOfSchema(s.AnyOf[0]) + " or " + kindOfSchema(s.AnyOf[1])
	}
	if both, ok := s.Type.([]any); ok {
		return fmt.Sprintf("%v or %v", both...)
	}
	return fmt.Sprint(s.Type)
}

func TestOpenAPIHasTheKeysOfTheShapes(t *testing.T) {
	t.Parallel()
	all := shapes()
	for name, typ := range all {
		s := document().Components.Schemas[name]
		if s == nil {
			t.Errorf("%s is not described", name)
			continue
		}
		want, optional := make(map[string]string), make(map[string]bool)
		for f := range fields(typ) {
			want[jsonName(f)] = kindOf(f)
			optional[jsonName(f)] = slices.Contains([]string{"ReplayRequest", "DeadLettersRequest", "JobRequest", "UndoRequest", "JobFilter"}, name) || strings.Contains(f.Tag.Get("json"), ",omit")
		}
		got, required := make(map[string]string), []string{}
		for key, property := range s.Properties {
			got[key] = kindOfSchema(property)
			if !optional[key] {
				required = append(required, key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-Go +described):\n%s", name, diff)
		}
		slices.Sort(required)
		if diff := cmp.Diff(required, slices.Sorted(slices.Values(s.Required))); diff != "" && len(required)+len(s.Required) > 0 {
			t.Errorf("%s: required (-Go +described):\n%s", name, diff)
		}
	}
	for name, s := range document().Components.Schemas {
		if _, known := all[name]; s.Properties != nil && !known {
			t.Errorf("%s is described, but no answer has that shape", name)
		}
	}
}

func TestOpenAPIHasNothingUnused(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	for _, m := range regexp.MustCompile(`"\$ref": "([^"]*)"`).FindAllSubmatch(raw, -1) {
		used[string(m[1])] = true
	}
	defined := make(map[string]bool)
	add := func(kind string, names []string) {
		for _, name := range names {
			defined["#/components/"+kind+"/"+name] = true
		}
	}
	c := &document().Components
	add("schemas", slices.Collect(maps.Keys(c.Schemas)))
	add("parameters", slices.Collect(maps.Keys(c.Parameters)))
	add("responses", slices.Collect(maps.Keys(c.Responses)))
	if diff := cmp.Diff(defined, used); diff != "" {
		t.Errorf("-defined +used:\n%s", diff)
	}
}
