package locate

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wantValue compares value and err with want: "absent", "malformed", or the parts joined by " & ".
func wantValue(t *testing.T, value Value, err error, want string) {
	t.Helper()
	switch want {
	case "absent", "malformed":
		sentinel := map[string]error{"absent": ErrAbsent, "malformed": ErrMalformed}[want]
		if !errors.Is(err, sentinel) || len(value.Parts) != 0 {
			t.Errorf("got %q, %v; want %s", value.Parts, err, want)
		}
	default:
		if err != nil {
			t.Errorf("got %v, want %q", err, want)
		} else if diff := cmp.Diff(strings.Split(want, " & "), value.Parts); diff != "" {
			t.Error(diff)
		}
	}
}

// TestEvalBody checks which bodies have an id, and the id.
func TestEvalBody(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 255)
	for _, c := range []struct{ name, at, body, want string }{
		{"plain", "body:id", `{"id":"evt_1"}`, "evt_1"},
		{"white space", "body:id", " {\t\"id\"\r\n:\n\"evt_1\" } \n", "evt_1"},
		{"a byte order mark", "body:id", "\ufeff{\"id\":\"evt_1\"}", "evt_1"},
		{"a byte order mark and white space", "body:0", "\ufeff\r\n [\"a\"]", "a"},
		{"a byte order mark before a text", "body:", "\ufeff\"a\"", "a"},
		{"two byte order marks", "body:id", "\ufeff\ufeff{\"id\":\"evt_1\"}", "malformed"},
		{"a byte order mark behind white space", "body:id", " \ufeff{\"id\":\"evt_1\"}", "malformed"},
		{"a byte order mark at the end", "body:id", "{\"id\":\"evt_1\"}\ufeff", "malformed"},
		{"only a byte order mark", "body:id", "\ufeff", "malformed"},
		{"half a byte order mark", "body:id", "\xef\xbb{\"id\":\"evt_1\"}", "malformed"},
		{"among others", "body:id", `{"a":[1,{"id":"no"}],"id":"yes","b":{"id":"no"}}`, "yes"},
		{"nested", "body:data.object.id", `{"data":{"x":1,"object":{"id":"in_1"}}}`, "in_1"},
		{"array index", "body:data.1.id", `{"data":[{"id":"a"},{"id":"b"}]}`, "b"},
		{"array behind another", "body:a.1", `{"x":[1,2,3],"a":["p","q"]}`, "q"},
		{"array at the root", "body:0", `["a","b"]`, "a"},
		{"digits as a key", "body:0", `{"0":"a"}`, "a"},
		{"index with a zero before it", "body:00", `["a"]`, "absent"},
		{"index past the end", "body:2", `["a","b"]`, "absent"},
		{"key in an array", "body:a.b", `{"a":[{"b":"c"}]}`, "absent"},
		{"key with a point", `body:a\.b`, `{"a.b":"c","a":{"b":"d"}}`, "c"},
		{"escapes in the key", "body:id", `{"\u0069\u0064":"a"}`, "a"},
		{"escapes in the value", "body:id", `{"id":"\u0065vt\/\u00e9\ud83d\ude00"}`, "evt/é😀"},
		{"every escape", "body:id", `{"id":"\"\\\/\u00E9\u00fF"}`, "\"\\/éÿ"},
		{"escapes of control characters", "body:id", `{"id":"a\b\f\r\t"}`, "malformed"},
		{"composite", "body:a + body:b", `{"a":"1","b":"2"}`, "1 & 2"},
		{"composite without a part", "body:a + body:b", `{"a":"1"}`, "absent"},
		{"first present", "body:a | body:b", `{"b":"2"}`, "2"},
		{"both present", "body:a | body:b", `{"b":"2","a":"1"}`, "1"},
		{"first is null", "body:a | body:b", `{"b":"2","a":null}`, "2"},
		{"first is malformed", "body:a | body:b", `{"b":"2","a":true}`, "malformed"},

		{"number", "body:id", `{"id":1}`, "1"},
		{"digits in a string", "body:id", `{"id":"1"}`, "1"},
		{"past the floats", "body:id", `{"id":9007199254740993}`, "9007199254740993"},
		{"its neighbour", "body:id", `{"id":9007199254740992}`, "9007199254740992"},
		{"overflowing exponent", "body:id", `{"id":1e400}`, "1e400"},
		{"negative zero", "body:id", `{"id":-0}`, "-0"},
		{"decimals", "body:id", `{"id":1.0}`, "1.0"},
		{"255 digits", "body:id", `{"id":` + strings.Repeat("1", 255) + `}`, strings.Repeat("1", 255)},
		{"256 digits", "body:id", `{"id":` + strings.Repeat("1", 256) + `}`, "malformed"},
		{"NaN", "body:id", `{"id":NaN}`, "malformed"},

		{"null document", "body:id", `null`, "absent"},
		{"empty array", "body:id", `[]`, "absent"},
		{"string document", "body:id", `"x"`, "absent"},
		{"number document", "body:id", `1`, "absent"},
		{"empty object", "body:id", `{}`, "absent"},
		{"null", "body:id", `{"id":null}`, "absent"},
		{"scalar on the path", "body:a.b", `{"a":"b"}`, "absent"},
		{"empty string", "body:id", `{"id":""}`, "malformed"},
		{"blanks", "body:id", `{"id":" \t"}`, "malformed"},
		{"blank", "body:id", `{"id":"  "}`, "malformed"},
		{"escaped blanks", "body:id", `{"id":"\u0020\u00a0\u2003"}`, "malformed"},
		{"array", "body:id", `{"id":["a"]}`, "malformed"},
		{"object", "body:id", `{"id":{"a":"b"}}`, "malformed"},
		{"true", "body:id", `{"id":true}`, "malformed"},
		{"false", "body:id", `{"id":false}`, "malformed"},

		{"key twice", "body:id", `{"id":"a","id":"a"}`, "malformed"},
		{"key twice, null first", "body:id", `{"id":null,"id":"a"}`, "malformed"},
		{"key twice after unescaping", "body:id", `{"\u0069d":"a","id":"b"}`, "malformed"},
		{"key twice on the way", "body:a.id", `{"a":{"id":"x"},"a":{}}`, "malformed"},
		{"key twice on the way, scalar last", "body:a.id", `{"a":{"id":"x"},"a":1}`, "malformed"},
		{"key twice elsewhere", "body:id", `{"id":"a","b":1,"b":2,"c":{"id":1,"id":2}}`, "a"},
		{"other case", "body:id", `{"ID":"b","id":"a","Id":"c"}`, "a"},
		{"only other case", "body:id", `{"ID":"b"}`, "absent"},

		{"lone high surrogate", "body:id", `{"id":"a\ud800"}`, "malformed"},
		{"lone low surrogate", "body:id", `{"id":"\udc00a"}`, "malformed"},
		{"surrogates the wrong way round", "body:id", `{"id":"\udc00\ud800"}`, "malformed"},
		{"high surrogate and a letter", "body:id", `{"id":"\ud800\u0041"}`, "malformed"},
		{"lone surrogate elsewhere", "body:id", `{"id":"a","x":"\ud800"}`, "a"},
		{"lone surrogate in another key", "body:id", `{"id":"a","\ud800":1}`, "a"},
		{"lone surrogate in a key that reads alike", "body:\ufffd", `{"\ud800":"a"}`, "malformed"},
		{"NUL", "body:id", `{"id":"a\u0000"}`, "malformed"},
		{"line break", "body:id", `{"id":"a\nb"}`, "malformed"},
		{"escape character", "body:id", `{"id":"\u001b[31m"}`, "malformed"},
		{"DEL", "body:id", "{\"id\":\"a\x7f\"}", "malformed"},
		{"C1", "body:id", "{\"id\":\"a\u0085b\"}", "malformed"},
		{"NUL elsewhere", "body:id", `{"id":"a","x":"\u0000"}`, "a"},
		{"invalid UTF-8", "body:id", "{\"id\":\"x\xff\"}", "malformed"},
		{"invalid UTF-8 elsewhere", "body:id", "{\"id\":\"x\",\"y\":\"\xff\"}", "malformed"},
		{"surrogate in UTF-8", "body:id", "{\"id\":\"\xed\xa0\x80\"}", "malformed"},
		{"255 bytes", "body:id", `{"id":"` + long + `"}`, long},
		{"256 bytes", "body:id", `{"id":"` + long + `x"}`, "malformed"},
		{"255 bytes in 256", "body:id", `{"id":"` + long[1:] + `\n"}`, "malformed"},
		{"255 escaped bytes", "body:id", `{"id":"` + strings.Repeat(`\u0078`, 255) + `"}`, long},
		{"256 escaped bytes", "body:id", `{"id":"` + strings.Repeat(`\u0078`, 256) + `"}`, "malformed"},
		{"128 characters of two bytes", "body:id", `{"id":"` + strings.Repeat("é", 128) + `"}`, "malformed"},
		{"10,000 bytes", "body:id", `{"id":"` + strings.Repeat("x", 10_000) + `"}`, "malformed"},
		{"composed", "body:id", "{\"id\":\"\u00e9\"}", "\u00e9"},
		{"decomposed", "body:id", "{\"id\":\"e\u0301\"}", "e\u0301"},
		{"right to left, zero width", "body:id", "{\"id\":\"a\u202eb\u200bc\"}", "a\u202eb\u200bc"},
		{"hostile text", "body:id", `{"id":"'; drop table x; --<script>${jndi:x}=cmd()"}`, "'; drop table x; --<script>${jndi:x}=cmd()"},
		{"number of 131,071 digits elsewhere", "body:id", `{"id":"a","n":1e131071}`, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			value, err := mustParse(t, c.at).Eval(&Input{Body: []byte(c.body)})
			wantValue(t, value, err, c.want)
		})
	}
}

// TestEvalInvalidJSON checks that a document that is not one valid value gives no id, wherever the
// fault is.
func TestEvalInvalidJSON(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", " ", "x", "{", `{"id"`, `{"id":`, `{"id":"a"`, `{"id":"a"}}`, `{"id":"a"}{"id":"b"}`, `{"id":"a"} x`,
		`{"id":"a",}`, `{,"id":"a"}`, `{"id":"a" "b":1}`, `{"id":"a";"b":1}`, `{'id':'a'}`, `{id:"a"}`, `{"id":a}`,
		`{"id":"a"/*x*/}`, "{\"id\":\"a\"}//x", `{"id":"a","b":[1,]}`, `{"id":"a","b":[,1]}`, `{"id":"a","b":[1 2]}`,
		`{"id":"a","b":[1}`, `{"id":"a","b":{"c":1]}`, `{"id":"a","b":01}`, `{"id":"a","b":-}`, `{"id":"a","b":1.}`,
		`{"id":"a","b":.5}`, `{"id":"a","b":1e}`, `{"id":"a","b":1e+}`, `{"id":"a","b":+1}`, `{"id":"a","b":0x1}`,
		`{"id":"a","b":Infinity}`, `{"id":"a","b":True}`, `{"id":"a","b":nul}`, `{"id":"a","b":nulll}`,
		`{"id":"a","b":"\x"}`, `{"id":"a","b":"\u12"}`, `{"id":"a","b":"\u12g4"}`, `{"id":"a","b":"\`, `{"id":"a","b":"c`,
		"{\"id\":\"a\",\"b\":\"\n\"}", "{\"id\":\"a\",\"b\":\"\x00\"}", "{\"id\":\"a\"}\x00", "{\"id\":\"a\"}\x0c", "{\"id\":\"a\"}\u00a0",
		"\xff\xfe{\x00", `{"id":"a","b"}`, `{"id":"a":"b"}`, `{"id":"a",1:2}`, `{"id":"a","b":}`,
	} {
		value, err := mustParse(t, "body:id").Eval(&Input{Body: []byte(body)})
		if !errors.Is(err, ErrMalformed) || errors.Is(err, ErrAbsent) {
			t.Errorf("%q: got %q, %v; want malformed", body, value.Parts, err)
		}
	}
}

// TestEvalDepth checks the limit of nesting, which is that of encoding/json.
func TestEvalDepth(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"id":"a","x":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
	}
	for levels, want := range map[int]string{65: "a", 10_000: "a", 10_001: "malformed", 1_000_000: "malformed"} {
		value, err := mustParse(t, "body:id").Eval(&Input{Body: []byte(nested(levels))})
		wantValue(t, value, err, want)
	}
	path := strings.Repeat("a.", 63) + "a"
	body := strings.Repeat(`{"a":`, 64) + `"x"` + strings.Repeat("}", 64)
	value, err := mustParse(t, "body:"+path).Eval(&Input{Body: []byte(body)})
	wantValue(t, value, err, "x")
	deeper := strings.Repeat(`{"a":`, 65) + `"x"` + strings.Repeat("}", 65)
	value, err = mustParse(t, "body:"+path).Eval(&Input{Body: []byte(deeper)})
	wantValue(t, value, err, "malformed")
	arrays := strings.Repeat("[0,", 64) + `"x"` + strings.Repeat("]", 64)
	value, err = mustParse(t, "body:"+strings.ReplaceAll(path, "a", "1")).Eval(&Input{Body: []byte(arrays)})
	wantValue(t, value, err, "x")
}

// TestEvalElsewhere reads headers, forms and query strings.
func TestEvalElsewhere(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 255)
	for _, c := range []struct {
		name, at, want string
		in             Input
	}{
		{"header", "header:x-id", "a", Input{Header: http.Header{"X-Id": {"a"}}}},
		{"binary body, id in a header", "header:X-Id | body:id", "a", Input{Header: http.Header{"X-Id": {"a"}}, Body: []byte{0, 0xff}}},
		{"no header", "header:X-Id", "absent", Input{}},
		{"empty header", "header:X-Id", "malformed", Input{Header: http.Header{"X-Id": {""}}}},
		{"header twice", "header:X-Id", "malformed", Input{Header: http.Header{"X-Id": {"a", "a"}}}},
		{"invalid UTF-8 in a header", "header:X-Id", "malformed", Input{Header: http.Header{"X-Id": {"\xff"}}}},
		{"tab in a header", "header:X-Id", "malformed", Input{Header: http.Header{"X-Id": {"a\tb"}}}},
		{"255 bytes", "header:X-Id", long, Input{Header: http.Header{"X-Id": {long}}}},
		{"256 bytes", "header:X-Id", "malformed", Input{Header: http.Header{"X-Id": {long + "x"}}}},
		{"key", "header:X-Sig#t", "1", Input{Header: http.Header{"X-Sig": {"v1=a=,t=1,v1=b"}}}},
		{"no key", "header:X-Sig#u", "absent", Input{Header: http.Header{"X-Sig": {"v1=a,t=1"}}}},
		{"key twice", "header:X-Sig#t", "malformed", Input{Header: http.Header{"X-Sig": {"t=1,t=1"}}}},
		{"no pairs", "header:X-Sig#t", "malformed", Input{Header: http.Header{"X-Sig": {"t=1,x"}}}},
		{"blank between pairs", "header:X-Sig#t", "1", Input{Header: http.Header{"X-Sig": {"a=1, t=1\t,b=2"}}}},
		{"key twice, after a blank", "header:X-Sig#t", "malformed", Input{Header: http.Header{"X-Sig": {"t=1, t=1"}}}},
		{"empty elements between pairs", "header:X-Sig#t", "1", Input{Header: http.Header{"X-Sig": {",a=1,, \t,t=1,"}}}},
		{"only empty elements", "header:X-Sig#t", "absent", Input{Header: http.Header{"X-Sig": {", ,"}}}},
		{"blank in a pair", "header:X-Sig#t", "malformed", Input{Header: http.Header{"X-Sig": {"a=1,t =1"}}}},
		{"alternative header", "header:webhook-id | header:svix-id", "b", Input{Header: http.Header{"Svix-Id": {"b"}}}},
		{"form", "form:id", "a b+c", Input{Body: []byte("x=%3D&id=a+b%2Bc&y")}},
		{"form key escaped", "form:id", "a", Input{Body: []byte("%69d=a")}},
		{"no field", "form:id", "absent", Input{Body: []byte("x=1&&")}},
		{"empty form", "form:id", "absent", Input{}},
		{"empty field", "form:id", "malformed", Input{Body: []byte("id=")}},
		{"field twice", "form:id", "malformed", Input{Body: []byte("id=a&%69d=a")}},
		{"bad escape", "form:id", "malformed", Input{Body: []byte("id=a&x=%zz")}},
		{"bad escape in a key", "form:id", "malformed", Input{Body: []byte("id=a&%z=1")}},
		{"escaped control character", "form:id", "malformed", Input{Body: []byte("id=a%00")}},
		{"escaped invalid UTF-8", "form:id", "malformed", Input{Body: []byte("id=%ff")}},
		{"query", "query:id", "a", Input{RawQuery: "id=a&b=c", Body: []byte("id=b")}},
		{"query twice", "query:id", "malformed", Input{RawQuery: "id=a&id=b"}},
		{"item", "body:a + item:b", "1 & 2", Input{Body: []byte(`{"a":"1","b":"x"}`), Item: []byte(`{"a":"x","b":2}`)}},
		{"no item", "item:b", "malformed", Input{Body: []byte(`{"b":"x"}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			value, err := mustParse(t, c.at).Eval(&c.in)
			wantValue(t, value, err, c.want)
		})
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	if got := (Value{Parts: []string{"a", "b:c"}}).Shown(); got != "a:b:c" {
		t.Errorf("got %s", got)
	}
}
