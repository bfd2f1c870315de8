package inbox_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// Items of a form or an XML document are stored as JSON, with that content type. An event that is
// the whole body is stored unchanged.
func TestStoredFormOfDocuments(t *testing.T) {
	t.Parallel()
	type stored struct{ ID, Type, Body, ContentType string }
	for _, tt := range []struct {
		name              string
		rules             provider.EventRules
		contentType, body string
		answer            string
		want              []stored
	}{
		{
			"form, batch",
			provider.EventRules{ID: "item:id", Type: "item:type", Document: "form:p", Batch: "body:"},
			"application/x-www-form-urlencoded",
			"p=%5B%7B%22id%22%3A1%2C%22type%22%3A%22a%22%7D%2C+%7B%22id%22%3A2%2C%22type%22%3A%22b%22%7D%5D",
			`{"status":"ok","events":2,"duplicates":0}`,
			[]stored{
				{"1", "a", `{"id":1,"type":"a"}`, "application/json"},
				{"2", "b", `{"id":2,"type":"b"}`, "application/json"},
			},
		},
		{
			"XML, batch of one",
			provider.EventRules{ID: "item:Id", Type: "const:note", Document: "xml", Batch: "body:e.n"},
			"text/xml", "<e><n><Id>1</Id></n></e>",
			`{"status":"ok","events":1,"duplicates":0}`,
			[]stored{{"1", "note", `{"Id":"1"}`, "application/json"}},
		},
		{
			"XML, one event",
			provider.EventRules{ID: "body:e.n.Id", Type: "const:note", Document: "xml"},
			"text/xml", "<e><n><Id>1</Id></n></e>\n",
			`{"status":"ok","event_id":"1"}`,
			[]stored{{"1", "note", "<e><n><Id>1</Id></n></e>\n", "text/xml"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []stored
			store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: func(_ context.Context, p *driver.ClaimParams) error {
				for _, c := range p.Claims {
					got = append(got, stored{c.EventID, c.Type, string(c.Body), contentType(t, c.Headers)})
				}
				return nil
			}}
			in := newEngine(t, store, func(c *hookonce.Config) { c.Sources[0].Event = tt.rules })
			req := delivery("x", tt.body)
			req.Header.Set("Content-Type", tt.contentType)
			w := httptest.NewRecorder()
			in.ServeHTTP(w, req)
			if answer := strings.TrimSpace(w.Body.String()); w.Code != 200 || answer != tt.answer {
				t.Errorf("answer %d %s, want 200 %s", w.Code, answer, tt.answer)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.SortSlices(func(a, b stored) bool { return a.ID < b.ID })); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// A route and a handler read the document of GitHub's form, also of a compressed one and in a replay; the
// bytes stay as they came.
func TestConditionsAndHandlersReadTheDocument(t *testing.T) {
	t.Parallel()
	const body = "payload=%7B%22ref%22%3A%22main%22%7D"
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = zw.Write([]byte(body))
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	l, to := onSQLite(t), newSent()
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.HandleJSON(mux, "gh", "push", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event, push struct{ Ref string }) error {
		return l.insert(ctx, tx, push.Ref+" "+string(ev.Body))
	})
	var routed atomic.Bool
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Sources[0].Event.Document, c.Sources[0].ContentEncodings = "form:payload", []string{"gzip"}
		c.Destinations = []hookonce.Destination{{Name: "app", Sender: to}}
		c.Routes = []hookonce.Route{{Name: "r", To: "app", Where: func(ev *hookonce.Event) (bool, error) {
			document, err := ev.Document()
			return routed.Load() && string(document) == `{"ref":"main"}`, err
		}}}
	})
	run(t, in)
	for id, eventType := range map[string]string{"e1": "ping", "e2": "push"} {
		got := deliver(in, delivery(id, zipped.String(), func(r *http.Request) {
			r.Header.Set("Content-Encoding", "gzip")
			r.Header.Set("X-GitHub-Event", eventType)
		}))
		if got != ok {
			t.Fatalf("%+v", got)
		}
	}
	wantDone(t, l, "e2")
	routed.Store(true)
	if replayed, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "e1", Mode: driver.ReplayAsNew}); err != nil || replayed.Messages != 1 {
		t.Fatalf("the replay decides %+v, %v; want one message", replayed, err)
	}
	if got := deliver(in, delivery("e3", body)); got != ok {
		t.Fatalf("%+v", got)
	}
	wantDone(t, l, "e3")
	for range 2 {
		<-to.got
	}
	wantEffects(t, l, "main "+body, "main "+body)
	got := []string{string(to.all[0].Body), string(to.all[1].Body)}
	slices.Sort(got)
	if diff := cmp.Diff([]string{zipped.String(), body}, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// A byte order mark in front of JSON is no part of the document, and stays in the stored body.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	const body = "\ufeff" + `{"ref":"main"}`
	l, mux := onSQLite(t), &hookonce.Mux[*sql.Tx]{}
	hookonce.HandleJSON(mux, "gh", "push", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event, push struct{ Ref string }) error {
		return l.insert(ctx, tx, push.Ref+" "+string(ev.Body))
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Sources[0].Event.ID = "body:ref" })
	run(t, in)
	if got := deliver(in, delivery("e1", body)); got != ok {
		t.Fatalf("%+v", got)
	}
	wantDone(t, l, "main")
	wantEffects(t, l, "main "+body)
}

// Both names of gzip say that a body is compressed; no name, and the name of nothing, say that it is not.
func TestContentEncodings(t *testing.T) {
	t.Parallel()
	const plain = `{"ref":"main"}`
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = zw.Write([]byte(plain))
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		encoding []string
		accept   []string // the source's ContentEncodings
		body     string
		code     int
	}{
		"gzip":                 {[]string{"gzip"}, []string{"gzip"}, zipped.String(), http.StatusOK},
		"x-gzip":               {[]string{"x-gzip"}, []string{"gzip"}, zipped.String(), http.StatusOK},
		"X-GZip":               {[]string{"X-GZip"}, []string{"gzip"}, zipped.String(), http.StatusOK},
		"empty":                {[]string{""}, nil, plain, http.StatusOK},
		"identity":             {[]string{"Identity"}, nil, plain, http.StatusOK},
		"identities":           {[]string{"identity, , identity"}, nil, plain, http.StatusOK},
		"a comma and gzip":     {[]string{", gzip"}, []string{"gzip"}, zipped.String(), http.StatusOK},
		"gzip and a comma":     {[]string{"gzip,"}, []string{"gzip"}, zipped.String(), http.StatusOK},
		"identity, then gzip":  {[]string{"identity,\tx-gzip"}, []string{"gzip"}, zipped.String(), http.StatusOK},
		"gzip, not accepted":   {[]string{"identity, gzip"}, nil, zipped.String(), http.StatusUnsupportedMediaType},
		"gzip and deflate":     {[]string{"gzip, deflate"}, []string{"gzip"}, zipped.String(), http.StatusUnsupportedMediaType},
		"no commas":            {[]string{"identity gzip"}, []string{"gzip"}, zipped.String(), http.StatusUnsupportedMediaType},
		"x-gzip, not accepted": {[]string{"x-gzip"}, nil, zipped.String(), http.StatusUnsupportedMediaType},
		"x-gzip that is plain": {[]string{"x-gzip"}, []string{"gzip"}, plain, http.StatusBadRequest},
		"deflate":              {[]string{"deflate"}, []string{"gzip"}, zipped.String(), http.StatusUnsupportedMediaType},
		"twice":                {[]string{"gzip", "gzip"}, []string{"gzip"}, zipped.String(), http.StatusUnsupportedMediaType},
		"empty and gzip":       {[]string{"", "gzip"}, []string{"gzip"}, zipped.String(), http.StatusUnsupportedMediaType},
		"two in one":           {[]string{"gzip, gzip"}, []string{"gzip"}, zipped.String(), http.StatusUnsupportedMediaType},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := inbox(t, onSQLite(t), nil, func(c *hookonce.Config) {
				c.Sources[0].Event.ID = "body:ref" // read from the inflated body
				c.Sources[0].ContentEncodings = tt.accept
			})
			got := deliver(in, delivery("e1", tt.body, func(r *http.Request) { r.Header["Content-Encoding"] = tt.encoding }))
			if got.Code != tt.code {
				t.Errorf("got %+v, want %d", got, tt.code)
			}
		})
	}
}

// contentType returns the Content-Type of stored headers.
func contentType(t *testing.T, headers []byte) string {
	t.Helper()
	var h map[string][]string
	if err := json.Unmarshal(headers, &h); err != nil {
		t.Fatal(err)
	}
	return strings.Join(h["Content-Type"], ", ")
}
