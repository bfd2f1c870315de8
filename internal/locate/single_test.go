package locate

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestSingle checks the values that Single returns, and its limit.
func TestSingle(t *testing.T) {
	t.Parallel()
	in := &Input{
		Header:   http.Header{"X-A": {"a b"}, "X-Two": {"1", "2"}},
		RawQuery: "q=%3Cb%3E&hub.mode=x&twice=1&twice=1&bad=%ff",
		Body: []byte(`{"s":"a\u0041\n","n":1.0,"t":true,"z":null,"e":[ ],"o":{"a":1},"twice":1,"twice":2,` +
			`"long":"` + strings.Repeat("x", 64) + `","half":"\ud800"}`),
	}
	for at, want := range map[string]string{
		"header:X-A": "a b", "header:X-None": "absent", "header:X-Two": "malformed",
		"query:q": "<b>", "query:hub.mode": "x", "query:twice": "malformed", "query:bad": "malformed", "query:none": "absent",
		"body:s": "aA\n", "body:n": "1.0", "body:t": "true", "body:z": "absent", "body:e": "[ ]", "body:o": `{"a":1}`,
		"body:o.a": "1", "body:o.b": "absent", "body:twice": "malformed", "body:long": "malformed", "body:half": "malformed",
		"body:s + body:n": "malformed", "body:s | body:n": "malformed", "body:e[]": "malformed",
	} {
		e := mustParse(t, at)
		got, err := e.Single(in, 63)
		switch want {
		case "absent", "malformed":
			if sentinel := map[string]error{"absent": ErrAbsent, "malformed": ErrMalformed}[want]; !errors.Is(err, sentinel) || got != "" {
				t.Errorf("%s: got %q, error %v, want %s", at, got, err, want)
			}
		default:
			if err != nil || got != want {
				t.Errorf("%s: got %q, error %v, want %q", at, got, err, want)
			}
		}
	}
	if got, err := mustParse(t, "body:long").Single(in, 64); err != nil || len(got) != 64 {
		t.Errorf("as long as the limit: %q, %v", got, err)
	}
}
