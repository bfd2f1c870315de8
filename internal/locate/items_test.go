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
