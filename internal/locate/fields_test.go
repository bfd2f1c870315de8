package locate

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReadType checks the lenient reading of types.
func TestReadType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, at, body, want string }{
		{"plain", "body:type", `{"id":1,"type":"a.b"}`, "a.b"},
		{"none", "", `{"id":1,"type":"a.b"}`, ""},
		{"absent", "body:type", `{"id":1}`, ""},
		{"null", "body:type", `{"id":1,"type":null}`, ""},
		{"number", "body:type", `{"id":1,"type":7.50}`, "7.50"},
		{"bool", "body:type", `{"id":1,"type":true}`, ""},
		{"object", "body:type", `{"id":1,"type":{}}`, ""},
		{"twice", "body:type", `{"id":1,"type":"a","type":"b"}`, ""},
		{"alternative", "body:type | body:kind", `{"id":1,"kind":"k"}`, "k"},
		{"malformed first", "body:type | body:kind", `{"id":1,"kind":"k","type":[]}`, ""},
		{"composite", "header:X-Event + body:action", `{"id":1,"action":"opened"}`, "issues:opened"},
		{"composite without a part", "header:X-Event + body:action", `{"id":1}`, ""},
		{"empty", "body:type", `{"id":1,"type":""}`, ""},
		{"control characters", "body:type", `{"id":1,"type":"a\u0000b\u009f\nc"}`, "a\ufffdb\ufffd\ufffdc"},
		{"half a pair", "body:type", `{"id":1,"type":"a\ud800b"}`, "a\ufffdb"},
		{"255 bytes", "body:type", `{"id":1,"type":"` + strings.Repeat("x", 255) + `"}`, strings.Repeat("x", 255)},
		{"256 bytes", "body:type", `{"id":1,"type":"` + strings.Repeat("x", 256) + `"}`, strings.Repeat("x", 255)},
		{"10,000 bytes", "body:type", `{"id":1,"type":"` + strings.Repeat("x", 10_000) + `"}`, strings.Repeat("x", 255)},
		{"10,000 escaped", "body:type", `{"id":1,"type":"` + strings.Repeat(`\u0078`, 10_000) + `"}`, strings.Repeat("x", 255)},
		{"cut at a character", "body:type", `{"id":1,"type":"` + strings.Repeat("é", 200) + `"}`, strings.Repeat("é", 127)},
		{"escaped characters cut", "body:type", `{"id":1,"type":"` + strings.Repeat(`\u20ac`, 200) + `"}`, strings.Repeat("€", 85)},
		{"control characters cut", "body:type", `{"id":1,"type":"` + strings.Repeat(`\n`, 200) + `"}`, strings.Repeat("\ufffd", 85)},
		{"invalid UTF-8 in a header", "header:X-Bad", `{"id":1}`, "a\ufffd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := Fields{ID: mustParse(t, "body:id")}
			if c.at != "" {
				f.Type = mustParse(t, c.at)
			}
			in := &Input{Header: http.Header{"X-Event": {"issues"}, "X-Bad": {"a\xff"}}, Body: []byte(c.body)}
			_, got, _, err := f.Reader(in).Read(nil, nil)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestReadTime(t *testing.T) {
	t.Parallel()
	day := time.Date(2025, 10, 9, 8, 53, 20, 0, time.UTC)
	for _, c := range []struct {
		value string // as JSON
		want  time.Time
	}{
		{"1760000000", day},
		{`"1760000000"`, day},
		{"1760000000.999", day.Add(999 * time.Millisecond)},
		{`"1760000000.0000000019"`, day.Add(1)},
		{"1760000000123.9", day.Add(123 * time.Millisecond)},
		{`"2025-10-09T08:53:20"`, day},
		{`"2025-10-09T08:53:20.25"`, day.Add(250 * time.Millisecond)},
		{`"2025-10-09T10:53:20+0200"`, day},
		{`"2025-10-09T04:23:20.5-0430"`, day.Add(500 * time.Millisecond)},
		{`"2025-10-09 08:53:20"`, day},
		{`"2025-10-09 08:53:20 UTC"`, day},
		{`"2025-10-09 10:53:20+02:00"`, day},
		{`"Thu, 09 Oct 2025 08:53:20 GMT"`, day},
		{`"Thu, 9 Oct 2025 08:53:20 UTC"`, day},
		{`"Thu, 09 Oct 2025 10:53:20 +0200"`, day},
		{`"Thu, 09 Oct 2025 08:53:20 CEST"`, time.Time{}},
		{`"Thu, 09 Oct 2025 08:53:20"`, time.Time{}},
		{`"2025-10-09T08:53:20+2"`, time.Time{}},
		{`"2025-10-09 08:53:20 CEST"`, time.Time{}},
		{`"1760000000.5x"`, time.Time{}},
		{"1760000000123", day.Add(123 * time.Millisecond)},
		{`"1760000000123"`, day.Add(123 * time.Millisecond)},
		{`"2025-10-09T08:53:20Z"`, day},
		{`"2025-10-09T10:53:20.5+02:00"`, day.Add(500 * time.Millisecond)},
		{"99999999999", time.Unix(99_999_999_999, 0).UTC()},
		{"100000000000", time.UnixMilli(100_000_000_000).UTC()},
		{"0", time.Unix(0, 0).UTC()},
		{"null", time.Time{}},
		{"true", time.Time{}},
		{"{}", time.Time{}},
		{"-1", time.Time{}},
		{"1e9", time.Time{}},
		{"100000000000000", time.Time{}},
		{"99999999999999999999", time.Time{}},
		{`""`, time.Time{}},
		{`"."`, time.Time{}},
		{`"1."`, time.Time{}},
		{`".5"`, time.Time{}},
		{`"1.x"`, time.Time{}},
		{`"yesterday"`, time.Time{}},
		{`"2025-10-09"`, time.Time{}},
		{`"2025-10-09T8:53:20Z"`, time.Time{}},
		{`"2025-10-09T08:53:20,5Z"`, time.Time{}},
		{`"2025-13-09T08:53:20Z"`, time.Time{}},
		{`"0000-01-01T00:00:00Z"`, time.Time{}},
		{`"10000-01-01T00:00:00Z"`, time.Time{}},
		{`"9999-12-31T23:59:59-01:00"`, time.Time{}},
		{`"Fri, 31 Dec 9999 23:59:59 -0100"`, time.Time{}},
		{`"` + strings.Repeat("1", 300) + `"`, time.Time{}},
	} {
		f := Fields{ID: mustParse(t, "body:id"), Time: mustParse(t, "body:at")}
		_, _, got, err := f.Reader(&Input{Body: []byte(`{"id":1,"at":` + c.value + `}`)}).Read(nil, nil)
		if err != nil || !got.Equal(c.want) || got.Location() != time.UTC {
			t.Errorf("%s: got %s, %v; want %s", c.value, got, err, c.want)
		}
	}
}

// TestReadTogether checks that fields with several locations do not affect each other, over the
// items of one batch.
func TestReadTogether(t *testing.T) {
	t.Parallel()
	f := Fields{
		ID:   mustParse(t, "body:account + item:none | body:account + item:id"),
		Type: mustParse(t, "item:none | item:type + body:mode"),
		Time: mustParse(t, "body:none | item:none | item:at"),
	}
	r := f.Reader(&Input{Body: []byte(`{"account":"acc","mode":"live","items":[]}`)})
	for i := range 3 {
		n := strconv.Itoa(i)
		id, typ, at, err := r.Read([]byte(`{"at":176000000`+n+`,"type":"t`+n+`","id":`+n+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"acc", n}, id.Parts); diff != "" {
			t.Error(diff)
		}
		if want := time.Unix(1_760_000_000+int64(i), 0); typ != "t"+n+":live" || !at.Equal(want) {
			t.Errorf("item %d: type %q, time %s", i, typ, at)
		}
	}
	if _, _, _, err := r.Read([]byte(`{"id":`), nil); err == nil {
		t.Error("a broken item has an id")
	}
	if _, _, _, err := r.Read([]byte(`{"id":"x"}`), nil); err != nil {
		t.Errorf("the item after a broken one: %v", err)
	}
}

// What a Reader returned stays valid when another request uses its memory, and nothing of the first
// request shows in the second.
func TestClosedReader(t *testing.T) {
	t.Parallel()
	f := Fields{ID: mustParse(t, "body:id + header:X-Part?"), Type: mustParse(t, "body:type"), Time: mustParse(t, "body:at")}
	other := Fields{ID: mustParse(t, "item:id + body:account?"), Type: mustParse(t, "form:type")}
	for range 1000 {
		body := []byte(`{"id":"evt_1","type":"paid","at":1760000000}`)
		in := &Input{Body: body, Header: http.Header{"X-Part": {"p"}}}
		r := f.Reader(in)
		id, typ, at, err := r.Read(nil, nil)
		r.Close()
		for i := range body {
			body[i] = '!'
		}
		second := other.Reader(&Input{Body: []byte(`{"id":"wrong","type":"wrong","account":null}`)})
		secondID, secondType, secondAt, secondErr := second.Read([]byte(`{"id":7}`), nil)
		second.Close()
		if err != nil || id.Shown() != "evt_1:p" || typ != "paid" || at.Unix() != 1760000000 {
			t.Fatalf("the first: %q, %q, %s, %v", id.Parts, typ, at, err)
		}
		if secondErr != nil || secondID.Shown() != "7:" || secondType != "" || !secondAt.IsZero() {
			t.Fatalf("the second: %q, %q, %s, %v", secondID.Parts, secondType, secondAt, secondErr)
		}
	}
}
