package hookadmin_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// TestExports exports more events than a page has, and continues with the cursor of the trailer.
func TestExports(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	for i := range 450 {
		claim(t, store, event{source: []string{"lab", "shop"}[i%2], id: fmt.Sprint("e", i), typ: "t", body: "{}", at: noon.Add(time.Duration(i) * time.Second)})
	}
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	for _, form := range []struct{ name, contentType string }{{"ndjson", "application/x-ndjson"}, {"csv", "text/csv; charset=utf-8"}} {
		var rows []map[string]any
		cursor, parts := "", 0
		for more := true; more; more = cursor != "" {
			got := a.get(t, "/api/v1/events."+form.name+"?source=lab&limit=210&cursor="+cursor)
			if want := `attachment; filename="events.` + form.name + `"`; got.header.Get("Content-Disposition") != want || got.header.Get("Content-Type") != form.contentType {
				t.Errorf("%s: headers %v", form.name, got.header)
			}
			rows = append(rows, exported(t, form.name, got.body)...)
			cursor, parts = got.header.Get("Hookonce-Next"), parts+1
		}
		if len(rows) != 225 || parts != 2 {
			t.Fatalf("%s: %d events in %d parts, want 225 in 2", form.name, len(rows), parts)
		}
		listed := readJSON[struct{ Events []map[string]any }](t, a.get(t, "/api/v1/events?source=lab&limit=200")).Events
		for i, want := range listed {
			for key, value := range want {
				if value == nil {
					value = ""
				}
				if got := rows[i][key]; form.name == "csv" && got != fmt.Sprint(value) || form.name == "ndjson" && got != want[key] {
					t.Fatalf("%s: row %d has %s %v, want %v", form.name, i, key, got, value)
				}
			}
		}
		head := a.do(t, http.MethodHead, "/api/v1/events."+form.name, nil)
		if head.status != http.StatusOK || len(head.body) != 0 {
			t.Errorf("HEAD of %s: %d, %d bytes", form.name, head.status, len(head.body))
		}
		for _, query := range []string{"limit=0", "limit=10001", "state=odd", "cursor=x", "colour=red", "since=x"} {
			wantDetail(t, a.get(t, "/api/v1/events."+form.name+"?"+query), http.StatusBadRequest, query[:strings.IndexByte(query, '=')])
		}
	}
}

// exported reads the rows of an export.
func exported(t *testing.T, form string, body []byte) (rows []map[string]any) {
	t.Helper()
	if form == "ndjson" {
		for line := range bytes.Lines(body) {
			var row map[string]any
			if err := json.Unmarshal(line, &row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		return rows
	}
	lines, err := csv.NewReader(bytes.NewReader(body)).ReadAll()
	if err != nil || len(lines) == 0 {
		t.Fatalf("%v in %q", err, body)
	}
	for _, line := range lines[1:] {
		row := map[string]any{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// TestHostileCells exports texts that a spreadsheet would run, and that a terminal would obey.
func TestHostileCells(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	hostile := map[string]string{
		"=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", " =1": "' =1", "\t=1": "' =1", "\r=1": "' =1",
		"\uff1d1": "'\uff1d1", "a=b": "a=b", "quote\"d, cell": "quote\"d, cell", "two\nlines": "two lines", "\x1b[31mred": " [31mred", "<script>": "<script>", "": "",
	}
	var want []string
	for text, cell := range hostile {
		claim(t, store, event{source: "lab", id: "e" + text, typ: text, body: "{}", at: noon})
		want = append(want, cell)
	}
	got := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store }).get(t, "/api/v1/events.csv")
	var types []string
	for _, row := range exported(t, "csv", got.body) {
		types = append(types, row["type"].(string))
	}
	slices.Sort(types)
	slices.Sort(want)
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	if lines := bytes.Count(got.body, []byte("\n")); lines != len(hostile)+1 {
		t.Errorf("%d lines, want one for each event and one of names", lines)
	}
}

// failing is a store that fails from the second page on.
type failing struct {
	driver.Store
	pages int
}

func (s *failing) Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	if s.pages++; s.pages > 1 {
		return nil, driver.ErrUnavailable
	}
	f.Limit = 1
	return s.Store.Events(ctx, f)
}

// TestExportThatFails breaks the connection, because the client has a part of the answer already.
func TestExportThatFails(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	for _, id := range []string{"a", "b"} {
		claim(t, store, event{source: "lab", id: id, body: "{}", at: noon})
	}
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = &failing{Store: store} })
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("the handler ended with %v, want http.ErrAbortHandler", err)
		}
		if !strings.Contains(a.log.String(), "an export ended early") {
			t.Errorf("log: %s", a.log)
		}
	}()
	a.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/events.ndjson", nil))
}
