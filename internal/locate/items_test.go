package locate

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestItems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, body string
		want       []string
		err        error
	}{
		{"", `[]`, nil, nil},
		{"", ` [ ] `, nil, nil},
		{"", `[1]`, []string{"1"}, nil},
		{"", "\ufeff [1,2]", []string{"1", "2"}, nil},
		{"", " [ {\"a\" : [1,2]} ,\n\"x,]\\\"}\", null\t] ", []string{`{"a" : [1,2]}`, `"x,]\"}"`, "null"}, nil},
		{"", `[[],[[1,2],3],{}]`, []string{"[]", "[[1,2],3]", "{}"}, nil},
		{"data.list", `{"list":[9],"data":{"x":[8],"list":[1,2]}}`, []string{"1", "2"}, nil},
		{"0.1", `[[[5],[6,7]]]`, []string{"6", "7"}, nil},
		{"list", `{"list":[]}`, nil, nil},
		{"list", `{}`, nil, ErrAbsent},
		{"list", `{"list":null}`, nil, ErrAbsent},
		{"list", `{"list":{}}`, nil, ErrMalformed},
		{"list", `{"list":"[]"}`, nil, ErrMalformed},
		{"list", `{"list":[1],"list":[2]}`, nil, ErrMalformed},
		{"", `{}`, nil, ErrMalformed},
		{"", ``, nil, ErrMalformed},
		{"", `[1,2`, nil, ErrMalformed},
		{"", `[1,2]]`, nil, ErrMalformed},
		{"", "[\"\xff\"]", nil, ErrMalformed},
		{"", "[" + strings.Repeat("1,", MaxItems) + "1]", nil, ErrMalformed},
	} {
		path, err := ParsePath(c.path)
		if err != nil {
			t.Fatal(err)
		}
		items, err := Items([]byte(c.body), path)
		var got []string
		for _, item := range items {
			got = append(got, string(item))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
			t.Errorf("%.80q at %q: %v\n%s", c.body, c.path, err, diff)
		}
	}
	most := "[" + strings.Repeat("1,", MaxItems-1) + "1]"
	if items, err := Items([]byte(most), Path{}); len(items) != MaxItems || err != nil {
		t.Errorf("%d items: got %d, %v", MaxItems, len(items), err)
	}
}

// TestBatchItems checks alternatives, arrays on the path and "one".
func TestBatchItems(t *testing.T) {
	t.Parallel()
	const meta = "body:entry[].changes | body:entry[].messaging"
	for _, c := range []struct {
		name, rule, body string
		xml              bool
		want             []string // "!" precedes malformed ones
		err              error
	}{
		{"flat", "body:a[].b", `{"a":[{"b":[1,2]},{"b":[]},{"b":[ 3 ]}]}`, false, []string{"1", "2", "3"}, nil},
		{"two deep", "body:a[].b.c[].d", `{"a":[{"b":{"c":[{"d":[1]},{"d":[2]}]}},{"b":{"c":[{"d":[3]}]}}]}`, false, []string{"1", "2", "3"}, nil},
		{"root on the way", "body:[].b", `[{"b":[1]},{"b":[2]}]`, false, []string{"1", "2"}, nil},
		{"array in an array", "body:a[].[].b", `{"a":[[{"b":[1]}],[{"b":[2]},{"b":[3]}]]}`, false, []string{"1", "2", "3"}, nil},
		{"nothing in it", "body:a[].b", `{"a":[]}`, false, nil, nil},
		{"one without", "body:a[].b", `{"a":[{"b":[1]}, {"c":1} ,{"b":null},7]}`, false, []string{"1", `!{"c":1}`, `!{"b":null}`, "!7"}, nil},
		{"one that is no array", "body:a[].b", `{"a":[{"b":[1]},{"b":{}},{"b":[],"b":[]}]}`, false, []string{"1", `!{"b":{}}`, `!{"b":[],"b":[]}`}, nil},
		{"none has it", "body:a[].b", `{"a":[{},{"b":null}]}`, false, nil, ErrAbsent},
		{"none has it, deeper", "body:a[].b[].c", `{"a":[{"b":[{}]},{"b":[{},{}]}]}`, false, nil, ErrAbsent},
		{"one has it, deeper", "body:a[].b[].c", `{"a":[{"b":[{}]},{"b":[{},{"c":[1]}]}]}`, false, []string{`!{"b":[{}]}`, `!{}`, "1"}, nil},
		{"not an array on the way", "body:a[].b", `{"a":{"b":[1]}}`, false, nil, ErrMalformed},

		{"first of two", "body:a | body:b", `{"a":[1],"b":[2]}`, false, []string{"1"}, nil},
		{"second of two", "body:a | body:b", `{"b":[2]}`, false, []string{"2"}, nil},
		{"empty first", "body:a | body:b", `{"a":[],"b":[2]}`, false, nil, nil},
		{"broken first", "body:a | body:b", `{"a":1,"b":[2]}`, false, nil, ErrMalformed},
		{"neither", "body:a | body:b", `{}`, false, nil, ErrAbsent},
		{"each its own", meta, `{"entry":[{"changes":[1]},{"messaging":[2,3]},{"changes":[4],"messaging":[5]}]}`, false, []string{"1", "2", "3", "4"}, nil},
		{"each its own, one has none", meta, `{"entry":[{"messaging":[2]},{"id":1}]}`, false, []string{"2", `!{"id":1}`}, nil},
		{"all second", meta, `{"entry":[{"messaging":[2]},{"messaging":[3]}]}`, false, []string{"2", "3"}, nil},
		{"behind another array", "body:a[].b | body:c[].b", `{"c":[{"b":[1]}]}`, false, []string{"1"}, nil},

		{"root array", "body: | body:logs | one", ` [1, 2] `, false, []string{"1", "2"}, nil},
		{"no root array", "body: | body:logs | one", `{"logs":[3]}`, false, []string{"3"}, nil},
		{"one", "body: | body:logs | one", ` {"id":1} `, false, []string{` {"id":1} `}, nil},
		{"one behind a root that is no array", "body:logs | body: | one", `{"id":1}`, false, []string{`{"id":1}`}, nil},
		{"only one", "one", `[1]`, false, []string{`[1]`}, nil},
		{"one, null array", "body:logs | one", `{"logs":null}`, false, []string{`{"logs":null}`}, nil},
		{"one, broken array", "body:logs | one", `{"logs":7}`, false, nil, ErrMalformed},
		{"one, no document", "body: | one", `{"id":`, false, nil, ErrMalformed},
		{"one, empty body", "body: | one", ``, false, nil, ErrMalformed},
		{"root is needed", "body:", `{"id":1}`, false, nil, ErrMalformed},
		{"root is last", "body:logs | body:", `{"id":1}`, false, nil, ErrMalformed},
		{"root is last, array", "body:logs | body:", `[1]`, false, []string{"1"}, nil},

		{"XML, one", "body:a.b", `{"a":{"b":{"c":"1"}}}`, true, []string{`{"c":"1"}`}, nil},
		{"XML, one text", "body:a.b", `{"a":{"b":"1"}}`, true, []string{`"1"`}, nil},
		{"XML, two", "body:a.b", `{"a":{"b":["1","2"]}}`, true, []string{`"1"`, `"2"`}, nil},
		{"XML, one of one", "body:a[].b", `{"a":{"b":"1"}}`, true, []string{`"1"`}, nil},
		{"XML, none", "body:a.b", `{"a":""}`, true, nil, ErrAbsent},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, err := ParseBatch(c.rule)
			if err != nil {
				t.Fatal(err)
			}
			items, err := b.Items([]byte(c.body), c.xml)
			var got []string
			for _, item := range items {
				text := string(item.Raw)
				if item.Err != nil {
					text = "!" + text
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// TestBatchLimit checks that the limit counts the items of all arrays.
func TestBatchLimit(t *testing.T) {
	t.Parallel()
	b, err := ParseBatch("body:[].a")
	if err != nil {
		t.Fatal(err)
	}
	half := `{"a":[` + strings.Repeat("1,", MaxItems/2-1) + `1]}`
	for body, want := range map[string]int{
		"[" + half + "," + half + "]":                             MaxItems,
		"[" + half + "," + half + `,{"a":[]}]`:                    MaxItems,
		"[" + half + "," + half + `,{"a":[1]}]`:                   -1,
		"[" + half + "," + half + `,{}]`:                          -1,
		"[" + strings.Repeat(`{"a":[]},`, MaxItems) + `{"a":[]}]`: -1,
	} {
		items, err := b.Items([]byte(body), false)
		if want < 0 && (!errors.Is(err, ErrMalformed) || len(items) != 0) || want >= 0 && (err != nil || len(items) != want) {
			t.Errorf("%.20q...%q: %d items, %v; want %d", body, body[len(body)-12:], len(items), err, want)
		}
	}
}

func TestParseBatchRefuses(t *testing.T) {
	t.Parallel()
	for rule, names := range map[string]string{
		"":                                     "body:path",
		"entry":                                `"entry" is not in the body`,
		"item:a":                               "not in the body",
		"one | body:a":                         `"one" is not in the body`,
		"body:a |":                             `"" is not in the body`,
		"body:a..b":                            "segment 2",
		"body:a[]":                             "leave out",
		"body:[]":                              "leave out",
		"body:a[][].b":                         "a[].[]",
		"body:a[].b[].c[].d[].e[].f":           "4 arrays",
		strings.Repeat("body:a | ", 8) + "one": "8 alternatives",
		"body:" + strings.Repeat("a", 1024):    "1024 bytes",
	} {
		if _, err := ParseBatch(rule); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%q: got %v, want an error with %s", rule, err, names)
		}
	}
}
