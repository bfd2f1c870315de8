package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/internal/headers"
)

func TestStoredHeader(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Authorization": {"Bearer canary"},
		"X-Token":       {"canary"},
		"X-Many":        {"a", "b"},
		"X-Latin":       {"caf\xe9"},
		"X-Markup":      {"<b>&"},
	}
	got, err := ParseHeader(EncodeHeader(VisibleHeader(h, []string{"x-token", "authorization"}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Authorization": {"<secret>"},
		"X-Token":       {"<secret>"},
		"X-Many":        {"a", "b"},
		"X-Latin":       {"café"},
		"X-Markup":      {"<b>&"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored header (-want +got):\n%s", diff)
	}
	if h.Get("X-Latin") != "caf\xe9" {
		t.Error("the request's own header was changed")
	}
}

// The stored form is the one that encoding/json writes.
func TestEncodedHeader(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Header{
		{},
		{"X-One": {"1"}},
		{"X-None": {}, "X-Empty": {""}},
		{"B": {"b"}, "A": {"a", "b", "c"}, "C": {"x"}},
		{"X-Quoted": {`say "yes"`, `a\b`, "<b>&'"}},
		{"X-Control": {"tab\there", "\x00\x1f\x7f", "line\r\n"}},
		{"X-Wide": {"café", "\u2028\u2029", "😀", "bad \xff"}},
		{`X"\é`: {"name"}},
	} {
		want := plainJSON(t, h)
		if diff := cmp.Diff(string(want), string(EncodeHeader(h))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", h, diff)
		}
	}
}

// plainJSON encodes v by encoding/json, without escaping '<', '>' and '&'.
func plainJSON(t *testing.T, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func TestRefusedHeader(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Content-Type": {"a/b"}, "User-Agent": {strings.Repeat("u", 1100), "\xff"}, "Authorization": {"secret"}, "X-Unknown": {"secret", ""},
		"Via": make([]string, 20), "X-Signature": {"v1=0a"},
	}
	want := `{"Authorization":["<6 bytes>"],"Content-Type":["a/b"],"User-Agent":["` + strings.Repeat("u", 1024) +
		"…\",\"\ufffd\"]," +
		`"Via":[` + strings.Repeat(`"",`, 9) + `""],"X-Signature":["v1=0a"],"X-Unknown":["<6 bytes>","<0 bytes>"]}`
	if got := string(RefusedHeader(h, []string{"X-Signature"}, 8192)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for limit := 2; limit < len(want); limit++ {
		got := RefusedHeader(h, []string{"X-Signature"}, limit)
		if _, err := ParseHeader(got); err != nil || len(got) > limit {
			t.Errorf("limit %d: %d bytes with the error %v: %s", limit, len(got), err, got)
		}
	}
}

// Every text has the meaning that encoding/json gives it.
func FuzzParseHeader(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"A":["b"]}`, `{"A":["b","c"],"D":["e"]}`, `{"A":["b"],"A":["c"]}`, `{"A":[]}`, `{"A":null}`, `{"A":[""],"":["x"]}`,
		`{"A":["caf\u00e9"]}`, `{"A":["café"]}`, "{\"A\":[\"\xff\"]}", `{"A":["a\\"b"]}`, ` {"A": ["b"]} `, `{"A":["b"],}`, `{,"A":["b"]}`,
		`{"A":["b"}`, `{"A":["b",]}`, `{"A":["b"]`, `{"A":"b"}`, `{"A":["b]}`, `{"A":["b"]}}`, `{"A":["b"]}{`, `{"A":[1]}`, `{`, `}`, `null`,
		"{\"A\":[\"\x7f\"]}", "{\"A\":[\"\t\"]}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		if len(stored) == 0 {
			t.Skip() // the stored form of no header
		}
		var want http.Header
		failed := json.Unmarshal(stored, &want) != nil
		got, err := ParseHeader(stored)
		if failed != (err != nil) {
			t.Fatalf("%q: error %v; encoding/json fails: %t", stored, err, failed)
		}
		if diff := cmp.Diff(want, got); diff != "" && !failed {
			t.Errorf("%q (-want +got):\n%s", stored, diff)
		}
	})
}

// A header without secrets is its own visible form. Any other stays as it is.
func TestVisibleHeaderLeavesItsArgument(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header http.Header
		query  string
		same   bool
	}{
		"plain":              {http.Header{"X-One": {"a", "b"}, "X-None": {}, "X-Wide": {"é"}}, "token=1", true},
		"empty":              {http.Header{}, "", true},
		"hidden":             {http.Header{"X-One": {"a"}, "X-Token": {"canary", "canary"}}, "", false},
		"hidden and empty":   {http.Header{"X-Token": {}}, "", false},
		"repeats the query":  {http.Header{"X-One": {"a"}, "Referer": {"b", "https://x/?token=1"}}, "token=1", false},
		"a copied parameter": {http.Header{"X-One": {"a"}, "X-Args": {"key=a%2Fbcdef"}}, "x=1&k%65y=a%2Fbcdef", false},
		"unescaped":          {http.Header{"X-Args": {"a/bcdefg"}}, "key=a%2Fbcdefg", false},
		"another parameter":  {http.Header{"X-Args": {"x=12345678"}}, "x=12345678&key=a%2Fbcdef", true},
		"a short secret":     {http.Header{"X-Args": {"1234567"}}, "key=1234567", true},
		"a copied header":    {http.Header{"X-Copy": {"12345678"}, "X-Key": {"Bearer 12345678"}}, "", false},
		"a copied phrase":    {http.Header{"X-Copy": {"k=my long key"}, "X-Key": {"my long key"}}, "", false},
		"Bearer and phrase":  {http.Header{"X-Copy": {"my long key"}, "X-Key": {"Bearer my long key"}}, "", false},
		"ISO 8859-1":         {http.Header{"X-One": {"a"}, "X-Latin": {"a", "caf\xe9"}}, "", false},
	} {
		before := make(http.Header)
		for name, values := range tt.header {
			before[name] = slices.Clone(values)
		}
		got := VisibleHeader(tt.header, []string{"x-token"}, Secrets(tt.header, tt.query, []string{"X-Key"}, "key"))
		if diff := cmp.Diff(before, tt.header, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: the argument was changed (-before +after):\n%s", name, diff)
		}
		if same := cmp.Equal(before, got, cmpopts.EquateEmpty()); same != tt.same {
			t.Errorf("%s: %q, want no change: %t", name, got, tt.same)
		}
		got.Set("X-Probe", "")
		if _, same := tt.header["X-Probe"]; same != tt.same {
			t.Errorf("%s: the result is the argument: %t, want %t", name, same, tt.same)
		}
	}
}

// The last word of a secret is none by itself.
func TestWordOfASecretHidesNothing(t *testing.T) {
	t.Parallel()
	h := http.Header{"Content-Type": {"application/json"}, "X-Key": {"my billing application"}}
	if got := VisibleHeader(h, nil, Secrets(h, "", []string{"X-Key"}, "")); got.Get("Content-Type") == headers.Secret || got.Get("X-Key") != headers.Secret {
		t.Errorf("got %q", got)
	}
}

func BenchmarkHeader(b *testing.B) {
	h := http.Header{
		"User-Agent": {"Stripe/1.0 (+https://stripe.com/docs/webhooks)"}, "Accept": {"*/*; q=0.5, application/xml"},
		"Cache-Control": {"no-cache"}, "Content-Type": {"application/json; charset=utf-8"}, "Content-Length": {"1200"},
		"Stripe-Signature": {"t=1721049599,v1=" + strings.Repeat("0", 64)},
	}
	b.ReportAllocs()
	for b.Loop() {
		EncodeHeader(VisibleHeader(h, []string{"Authorization"}, nil))
	}
}
