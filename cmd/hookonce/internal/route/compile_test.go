package route

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

const invoice = `{
	"id": 9007199254740993, "big": 123456789012345678901234567890, "amount": 100.5, "count": 3, "small": 1e-3,
	"livemode": true, "deleted": false, "note": null, "name": "Ann", "digits": "42", "created": "2026-03-01T10:00:00Z",
	"data": {"object": {"id": "in_1", "tags": ["a", "b"]}},
	"items": [{"sku": "x", "qty": 1, "parts": [{"n": 1}]}, {"sku": "y", "qty": 5}, {"sku": "Ann"}],
	"matrix": [[1, 2], [3]], "flags": [true, false, true]
}`

func testEvent(body string) *hookonce.Event {
	return &hookonce.Event{
		Source:     "stripe",
		ID:         "evt_1",
		Type:       "invoice.paid",
		OccurredAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Header:     http.Header{"X-Region": {"eu", "us"}},
		Body:       []byte(body),
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	tests := map[bool][]string{
		true: {
			`true`,
			`body.livemode`,
			`body.livemode == true`,
			`not body.deleted and not body.missing`,
			`event.source == "stripe" and event.id == "evt_1"`,
			`event.type startsWith "invoice."`,
			`event.type matches "^invoice\\.(paid|voided)$"`,
			`event.header("x-region") in ["eu", "us"]`,
			`event.header("X-None") == nil`,
			`event.occurred_at > date("2026-03-01")`,
			`event.occurred_at - date(body.created) == duration("2h")`,
			`date(body.created) + duration("1h") < event.occurred_at`,
			`date(body.missing) == nil`,
			// numbers
			`body.id == 9007199254740993`,
			`body.id != 9007199254740992.0`,
			`body.id > 9007199254740992.0`,
			`body.big > 9223372036854775807`,
			`string(body.big) == "123456789012345678901234567890"`,
			`body.big == int("123456789012345678901234567890")`,
			`body.amount > 100`,
			`body.amount < 101 and body.count == 3.0`,
			`body.small < 1`,
			`body.count + 1 == 4 and body.count * 2 - 1 == 5 and body.count / 2 == 1.5 and body.count % 2 == 1`,
			`-body.count < 0 and abs(-body.count) == 3`,
			`9223372036854775807 + body.count > 9223372036854775807`,
			`int(body.digits) == 42 and float("1.5") == 1.5 and int(2.9) == 2`,
			// missing fields are nil
			`body.a.b.c.d == nil`,
			`body.name.first == nil and body.count.x == nil and body.flags["x"] == nil`,
			`body.items[99] == nil and body.items[-1].sku == "Ann"`,
			`body["data"]["object"].id == "in_1"`,
			`body?.data?.none?.id == nil`,
			`body.note == nil`,
			`(body.missing ?? 7) == 7`,
			`not (body.missing > 1) and not (body.missing <= 1) and not ("x" < body.missing)`,
			`not (body.missing contains "x") and not (body.missing matches "x") and not (body.missing startsWith "x")`,
			`not ("x" in body.missing) and lower(body.missing) == nil and len(body.missing) == 0`,
			`none(body.missing, true) and count(body.missing) == 0`,
			`body.missing ? false : true`,
			// values
			`body.name in ["Ann", "Bob"] and body.count in [1, 3] and body.name not in ["x"]`,
			`not (body.count in ["Ann", "Bob"])`,
			`"b" in body.data.object.tags and "object" in body.data`,
			`lower(body.name) == "ann" and upper("a") == "A" and trim(" x ") == "x"`,
			`body.name contains "nn" and body.name endsWith "n"`,
			`len(body.name) == 3 and len(body.items) == 3 and len(body.data) == 1`,
			`string(true) == "true" and string(body.count) == "3" and string(body.amount) == "100.5"`,
			`body.data == body.data and body.items != body.data`,
			`body.count > 1 ? body.livemode : false`,
			`if body.count > 1 { true } else { false }`,
			// lists
			`any(body.items, .sku == "y" and .qty > 2)`,
			`all(body.items, .sku != "z") and one(body.items, .qty == 5)`,
			`any(body.items, .sku == body.name)`,
			`any(body.items, .sku == event.header("X-None") or .qty == 5)`,
			`count(body.items, .qty >= 1) == 2 and count(body.flags) == 2`,
			`any(body.items, any(.parts, .n == 1))`,
			`any(body.matrix, any(#, # == 3))`,
			`len(filter(body.items, .qty > 1)) == 1 and find(body.items, .qty > 1).sku == "y"`,
			`filter(body.items, .qty > 1)[0].sku == "y" and filter(body.items, false)[0] == nil`,
			`any(map(body.items, .qty), # == 5) and "x" in map(body.items, .sku)`,
			`body.items | any(.sku == "x")`,
		},
		false: {
			`body.missing`,
			`body.deleted`,
			`body.missing.deeper.still`,
			`body.id == 9007199254740992`,
			`body.id == body.big`,
			`event.occurred_at < date("2026-01-01")`,
			`body.name == 1`,
			`any(body.items, .qty == 6)`,
			`body.missing == 0`,
			`body.livemode and body.missing`,
		},
	}
	for want, expressions := range tests {
		for _, where := range expressions {
			decide, err := Compile(where)
			if err != nil {
				t.Errorf("Compile(%s): %v", where, err)
				continue
			}
			if got, err := decide(testEvent(invoice)); err != nil || got != want {
				t.Errorf("%s = %v, %v, want %v", where, got, err, want)
			}
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	decide, err := Compile(`body == nil`)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]bool{
		`{"a":1}`: false, `[]`: false, `0`: false,
		``: true, `null`: true, `a=b&c=d`: true, `{"a":1} x`: true, `{"a":1}{"a":2}`: true, `{`: true,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000): true,
	} {
		if got, err := decide(testEvent(body)); err != nil || got != want {
			t.Errorf("body %.20q is nil = %v, %v, want %v", body, got, err, want)
		}
	}
	// The left side of `and` decides before the body is parsed. A missing time is nil.
	lazy, err := Compile(`event.type == "other" and body.a.b == 1 or event.occurred_at == nil`)
	if err != nil {
		t.Fatal(err)
	}
	ev := testEvent(`{`)
	ev.OccurredAt = time.Time{}
	if got, err := lazy(ev); err != nil || !got {
		t.Errorf("got %v, %v, want true", got, err)
	}
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ where, want string }{
		{``, `the expression is empty; leave it out to take every event`},
		{" \n", `the expression is empty; leave it out to take every event`},
		{strings.Repeat("a", MaxLength+1), `the expression has 4097 bytes; at most 4096 are allowed`},
		{"\"\xff\"", `the expression is not valid UTF-8`},
		{`body.a ==`, `unexpected token EOF (at 1:9 of the expression)`},
		{"true and\n  body.a = 1", `unexpected token Operator("=") (at 2:10 of the expression)`},
		{`1 + 1`, `expected bool, but got int`},
		{`"text"`, `expected bool, but got string`},
		{`1 == "a"`, `invalid operation: == (mismatched types int and string) (at 1:3 of the expression)`},
		{`event.type > 1`, `invalid operation: > (mismatched types string and int) (at 1:12 of the expression)`},
		{`event.typ == "x"`, `event has only source, id, type, occurred_at, header (at 1:7 of the expression)`},
		{`event.header == "x"`, `header is a function: event.header("Name") (at 1:7 of the expression)`},
		{`event == event`, `event is not a value; it has source, id, type, occurred_at, header (at 1:1 of the expression)`},
		{`event.header() == "x"`, `not enough arguments to call header (at 1:7 of the expression)`},
		{`boddy.a == 1`, `unknown name "boddy"; an expression sees event and body (at 1:1 of the expression)`},
		{`$env.body == 1`, `unknown name "$env"; an expression sees event and body (at 1:1 of the expression)`},
		{`body.a matches "("`, "error parsing regexp: missing closing ): `(` (at 1:8 of the expression)"},
		{`body.a matches body.b`, "the pattern of `matches` must be written out as a text (at 1:21 of the expression)"},
		{`body.a matches "((a{100}){100}){100}"`, "error parsing regexp: invalid repeat count: `{100}` (at 1:8 of the expression)"},
		{`let x = body.a; x == 1`, "`let` is not available (at 1:5 of the expression)"},
		{`true; true`, `this is not available here (at 1:1 of the expression)`},
		{`{"a": 1} == body`, `this is not available here (at 1:1 of the expression)`},
		{`body.a[0:2] == "ab"`, `slices are not available; use startsWith, endsWith or contains (at 1:7 of the expression)`},
		{`1 in 1..10`, `the operator .. is not available (at 1:7 of the expression)`},
		{`2 ** 3 == 8`, `the operator ** is not available (at 1:3 of the expression)`},
		{`any([1, 2], # == body.a)`, "a list may only stand after `in` (at 1:5 of the expression)"},
		{`body.a in [body.b]`, "a list after `in` may only hold texts, numbers, true, false and nil (at 1:17 of the expression)"},
		{`any(body.items, #index == 0)`, `#index is not available; use # or .field for the element (at 1:17 of the expression)`},
		{`any(body.items, .sku in body.skus)`, `inside the condition of a list function body may only be compared (== != < <= > >= startsWith endsWith) with (at 1:25 of the expression)`},
		{`any(body.items, any(body.items, true))`, `inside the condition of a list function body may only be compared (== != < <= > >= startsWith endsWith) with (at 1:21 of the expression)`},
		{`any(body.items, event.header("A") contains .x)`, `inside the condition of a list function event may only be compared (== != < <= > >= startsWith endsWith) with (at 1:17 of the expression)`},
		{`any(body.items, body[.a] == 1)`, `inside the condition of a list function body may only be compared (== != < <= > >= startsWith endsWith) with (at 1:17 of the expression)`},
		{`any(body.items, "x")`, `predicate should return boolean (got string) (at 1:17 of the expression)`},
		{`len(body.a, 1) == 1`, `too many arguments to call len (at 1:1 of the expression)`},
		{`"a" + body.b == "ab"`, ``}, // the type is known only at evaluation
		{`lower("a") + "b" == "ab"`, ``},
	}
	for _, fn := range []string{
		"now()", "reduce(body.a, #acc + #)", "groupBy(body.a, .b)", "sortBy(body.a, .b)", "repeat(body.a, 9)",
		"replace(body.a, \"\", body.b)", "join(body.a)", "toJSON(body)", "fromJSON(body.a)", "timezone(\"UTC\")", "toBase64(body.a)", "get(body, \"a\")",
		"concat(body.a, body.a)", "flatten(body.a)", "uniq(body.a)", "sum(body.a)",
	} {
		name, _, _ := strings.Cut(fn, "(")
		tests = append(tests, struct{ where, want string }{fn + " == 1", fmt.Sprintf("the function %s is not available; there are all, any, none, "+
			"one, count, filter, map, find, len, lower, upper, trim, string, int, float, abs, date, duration, and event.header (at 1:1 of the expression)", name)})
	}
	for _, tt := range tests {
		_, err := Compile(tt.where)
		var own *Error
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("Compile(%s): %v", tt.where, err)
		case tt.want != "" && !errors.As(err, &own):
			t.Errorf("Compile(%.60s): error %v is no *Error", tt.where, err)
		case tt.want != "" && err.Error() != tt.want:
			t.Errorf("Compile(%.60s):\n got %v\nwant %s", tt.where, err, tt.want)
		}
	}
}

func TestEvaluationErrors(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]string{
		`body.name`:                          `this must be true or false, but is a text`,
		`body.count and true`:                `this must be true or false, but is a number (at 1:6 of the expression)`,
		`not body.items`:                     `this must be true or false, but is a list (at 1:10 of the expression)`,
		`body.name > 1`:                      `a text cannot be compared with a number (at 1:11 of the expression)`,
		`event.occurred_at > "2026"`:         `a time cannot be compared with a text (at 1:19 of the expression)`,
		`body.name + "x" == "Annx"`:          `a text + a text is not possible (at 1:11 of the expression)`,
		`body.missing + 1 > 1`:               `nil + a number is not possible (at 1:14 of the expression)`,
		`body.count / 0 > 1`:                 `division by zero (at 1:12 of the expression)`,
		`body.count % 0 > 1`:                 `the remainder of a division by zero does not exist (at 1:12 of the expression)`,
		`body.count % body.amount > 1`:       `% needs whole numbers of at most 64 bits (at 1:12 of the expression)`,
		`any(body.name, # == 1)`:             `this must be a list, but is a text (at 1:10 of the expression)`,
		`body.count contains "x"`:            `contains needs two texts, but has a number and a text (at 1:12 of the expression)`,
		`body.count matches "x"`:             `matches needs a text on its left, but has a number (at 1:12 of the expression)`,
		`1 in body.name`:                     "`in` needs a list or an object on its right, but has a text (at 1:3 of the expression)",
		`int(body.name) == 1`:                `int needs a number, but has a text that is not one (at 1:1 of the expression)`,
		`float(body.items) == 1`:             `float needs a number or a text, but has a list (at 1:1 of the expression)`,
		`date(body.name) == 1`:               `date needs a text as "2006-01-02T15:04:05Z" or "2006-01-02" (at 1:1 of the expression)`,
		`lower(body.count) == "x"`:           `lower needs a text, but has a number (at 1:1 of the expression)`,
		`len(body.count) == 1`:               `len needs a list, an object or a text, but has a number (at 1:1 of the expression)`,
		`string(body.items) == "x"`:          `string needs a text, a number, true or false, but has a list (at 1:1 of the expression)`,
		`any(body.items, .parts)`:            `this must be true or false, but is a list (at 1:18 of the expression)`,
		`abs(body.name) == 1`:                `abs needs a number, but has a text (at 1:1 of the expression)`,
		`duration(body.name) == 1`:           `duration needs a text as "1h30m" (at 1:1 of the expression)`,
		`event.occurred_at * 2 == body.name`: `a time * a number is not possible (at 1:19 of the expression)`,
	} {
		decide, err := Compile(where)
		if err != nil {
			t.Errorf("Compile(%s): %v", where, err)
			continue
		}
		got, err := decide(testEvent(invoice))
		var own *Error
		if got || !errors.As(err, &own) || err.Error() != want {
			t.Errorf("%s = %v\n got %v\nwant %s", where, got, err, want)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	decide, err := Compile(`any(body.items, .sku == body.name and .qty == body.n) and event.id matches "^evt_[0-9]+$"`)
	if err != nil {
		t.Fatal(err)
	}
	shared := testEvent(`{"name": "x", "n": 1, "items": [{"sku": "x", "qty": 1}]}`)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				n := worker*200 + i
				own := testEvent(fmt.Sprintf(`{"name": "x", "n": %d, "items": [{"sku": "x", "qty": %d}]}`, n, n+i%2))
				if got, err := decide(own); err != nil || got != (i%2 == 0) {
					t.Errorf("event %d: got %v, %v", n, got, err)
				}
				if got, err := decide(shared); err != nil || !got {
					t.Errorf("shared event: got %v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`body.livemode == true`, `any(body.items, .sku == body.name)`, `event.header("X") in ["a"]`, `count(body.flags) > 1`,
		`body.a?.b ?? 1 > 2`, `filter(body.matrix, any(#, # > 1))[0][-1] == 3`, `event.occurred_at - date("2026-01-01") > duration("1h")`,
		`-body.id % 2 == 0 or not (body.big * 3 < 1e300)`, `body.name matches "^A" ? true : false`, `let x = 1; x == 1`, `map(1..9, #)`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, where string) {
		decide, err := Compile(where)
		if err != nil {
			var own *Error
			if !errors.As(err, &own) || own.Message == "" || strings.Contains(err.Error(), "\n") {
				t.Fatalf("Compile(%q): %#v", where, err)
			}
			return
		}
		for _, body := range []string{invoice, `[]`, ``} {
			got, err := decide(testEvent(body))
			again, err2 := decide(testEvent(body))
			if got != again || (err == nil) != (err2 == nil) {
				t.Fatalf("%q gave %v, %v and then %v, %v", where, got, err, again, err2)
			}
			if err == nil {
				continue
			}
			var own *Error
			if !errors.As(err, &own) || got {
				t.Fatalf("%q gave %v with %#v", where, got, err)
			}
			// For example, a message about an interface conversion: one of our functions should
			// have refused the value.
			if strings.Contains(own.Message, "interface") || strings.Contains(own.Message, "reflect") {
				t.Fatalf("%q failed inside of the interpreter: %v", where, err)
			}
		}
	})
}

// Each of these would take seconds or minutes.
func TestUndecided(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20)
	list := "[" + strings.Repeat("1,", 1<<17) + "1]"
	body := `{"text":"` + text + `","list":` + list + `,"pair":[` + list + `,` + list + `]}`
	for name, where := range map[string]string{
		"a regular expression":          `body.text matches "(x+x+x+){300}y"`,
		"many regular expressions":      strings.Repeat(`body.text matches "x{30}z" or `, 40) + `true`,
		"a regular expression per item": `any(body.list, string(#) matches "(y+y+){90}z")`,
		"nested lists":                  `any(body.pair, all(#, ` + strings.Repeat(`# != 7 and `, 60) + `true))`,
		"long conditions":               `any(body.list, ` + strings.Repeat(`# == 7 or `, 100) + `false)`,
		"lists made of lists":           `len(` + strings.Repeat(`map(`, 60) + `body.list` + strings.Repeat(`, #)`, 60) + `) == 0`,
		"comparisons of large values":   strings.Repeat(`body.pair == body.pair and `, 120) + `false`,
		"changes of long texts":         strings.Repeat(`lower(`, 500) + `body.text` + strings.Repeat(`)`, 500) + ` == "x"`,
	} {
		decide, err := Compile(where)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, err = decide(testEvent(body))
		var own *Error
		if !errors.Is(err, hookonce.ErrUndecided) || !errors.As(err, &own) {
			t.Errorf("%s: got the error %v, want %v", name, err, hookonce.ErrUndecided)
		}
	}
	// Ordinary conditions on a large body stay far below the bound.
	for _, where := range []string{
		`body.text matches "^x.*y?$"`, `any(body.list, # == 2)`, `body.text contains "xy"`, `count(body.list, # > 0 and # < 9) > 3`,
	} {
		decide, err := Compile(where)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decide(testEvent(body)); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// body is the document of the event, also if the sender sent a form or XML.
func TestBodyIsTheDocument(t *testing.T) {
	t.Parallel()
	decide, err := Compile(`body.state == "paid"`)
	if err != nil {
		t.Fatal(err)
	}
	store := rig.OpenSQLite(t)
	for body, document := range map[string]string{
		`{"state":"paid"}`:                                "",
		"\ufeff" + `{"state":"paid"}`:                     "",
		"\ufeff\r\n\t " + `{"state":"paid"}` + "\r\n":     "",
		"p=%7B%22state%22%3A%22paid%22%7D":                "form:p",
		"\ufeffp=%EF%BB%BF%7B%22state%22%3A%22paid%22%7D": "form:p",
		"--b\r\nContent-Disposition: form-data; name=p\r\n\r\n\ufeff" + `{"state":"paid"}` + "\r\n--b--": "form:p",
		"<state>paid</state>":       "xml",
		"\ufeff<state>paid</state>": "xml",
	} {
		in, err := hookonce.NewEngine(store, &hookonce.Config{Sources: []hookonce.Source{{
			Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "header:X-Id", Document: document},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/webhooks/lab", strings.NewReader(body))
		r.Header.Set("X-Id", "e1")
		d, err := in.Verify(httptest.NewRecorder(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decide(d.Events[0]); !got || err != nil {
			t.Errorf("%q, %q: %v, %v", document, body, got, err)
		}
	}
}
