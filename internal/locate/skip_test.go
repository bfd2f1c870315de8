package locate

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Documents are read alike whether the containers that no path enters are skipped or read value by
// value: the same faults, at the same bytes, and the same values.
func TestSkippingChangesNothing(t *testing.T) {
	t.Parallel()
	read := func(doc []byte, whole bool) (string, []hit) {
		hits := []hit{{path: []segment{{key: "id", index: -1}}}, {path: []segment{{key: "a", index: -1}, {key: "id", index: -1}}}}
		s := scanner{doc: doc, unskipped: whole}
		if err := s.scan(hits); err != nil {
			return err.Error(), nil
		}
		return "", hits
	}
	check := func(doc string) string {
		fault, hits := read([]byte(doc), false)
		wantFault, want := read([]byte(doc), true)
		if valid := json.Valid([]byte(doc)) && utf8.ValidString(doc); valid != (fault == "") {
			return "valid: " + fault
		}
		return cmp.Diff(wantFault, fault) + cmp.Diff(want, hits, cmp.AllowUnexported(hit{}, segment{}))
	}
	deep := func(n int, inner string) string {
		return `{"x":` + strings.Repeat("[", n) + inner + strings.Repeat("]", n) + `,"id":"evt_1","a":{"id":{"b":[{}]}}}`
	}
	for _, doc := range []string{
		deep(1, ""), deep(62, "1"), deep(63, "1"), deep(64, "1"), deep(65, `{"a":1}`), deep(200, "{}"), deep(9000, "1"), deep(9999, "1"), deep(10_001, "1"),
		deep(3, `"\ud83d\ude00",-0.5e+3,{"k" : null , "l":[true,false]}`), deep(3, `1,`), deep(3, `{"a":1]`), deep(3, `{"a" 1}`), deep(3, `{1:1}`),
		deep(3, `"a`), deep(3, `"\x"`), deep(3, "\"\x01\""), deep(3, "01"), deep(70, "01"), deep(3, "nul"), deep(3, `{"a":}`), deep(3, "}"),
		`{"x":[`, `{"x":[1`, `{"x":[1,`, `{"x":{"y"`, `{"x":{"y":`, `{"x":{"y":"`, `{"x":{"y":{}`, `{"x":[[]`, `{"x":[[],{}]}]`,
	} {
		if diff := check(doc); diff != "" {
			t.Errorf("%.80s: %s", doc, diff)
		}
	}
	piece := rapid.SampledFrom([]string{
		"{", "}", "[", "]", ",", ":", `"id"`, `"a"`, `"x"`, "1", "-0.1e5", "true", "null", " ", "\n", `"\u0041"`, `"\`, `"`, "\x00", "é", "01", "tru",
	})
	rapid.Check(t, func(t *rapid.T) {
		doc := strings.Join(rapid.SliceOfN(piece, 1, 60).Draw(t, "doc"), "")
		for _, doc := range []string{doc, `{"x":{"y":[` + doc + `]},"id":1}`} {
			if diff := check(doc); diff != "" {
				t.Fatalf("%q: %s", doc, diff)
			}
		}
	})
	valid := rapid.Custom(func(t *rapid.T) any { return drawValue(t, 4) })
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(map[string]any{"id": valid.Draw(t, "id"), "a": valid.Draw(t, "a"), "x": valid.Draw(t, "x")})
		if err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(doc)).Draw(t, "cut")
		for _, doc := range []string{string(doc), string(doc[:cut]), string(doc[:cut]) + "]" + string(doc[cut:])} {
			if diff := check(doc); diff != "" {
				t.Fatalf("%q: %s", doc, diff)
			}
		}
	})
}

// drawValue draws a JSON value with at most so many levels.
func drawValue(t *rapid.T, levels int) any {
	kinds := 3
	if levels > 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.String().Draw(t, "text")
	case 1:
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
	case 2:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "literal")
	case 3:
		all := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			all[rapid.SampledFrom([]string{"id", "a", "x", "é\"\\"}).Draw(t, "key")] = drawValue(t, levels-1)
		}
		return all
	}
	all := []any{}
	for range rapid.IntRange(0, 3).Draw(t, "elements") {
		all = append(all, drawValue(t, levels-1))
	}
	return all
}
