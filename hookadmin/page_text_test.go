package hookadmin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for give, want := range map[string]string{
		"":                                "",
		"plain text – ü 日本":               "plain text – ü 日本",
		"a\x00b\x1b[31m\n\t\x7f":          "a␀b␛[31m␊␉␡",
		"\u202etxt.exe":                   "⟨U+202E⟩txt.exe",
		"zero\u200bwidth":                 "zero⟨U+200B⟩width",
		"soft\u00adhyphen":                "soft⟨U+00AD⟩hyphen",
		"filler\u3164x":                   "filler⟨U+3164⟩x",
		"c1\u0085x":                       "c1⟨U+0085⟩x",
		"bad\xffbyte":                     "bad⟨FF⟩byte",
		"real\ufffdone":                   "real\ufffdone",
		"e" + strings.Repeat("\u0301", 6): "e" + strings.Repeat("\u0301", maxMarks) + strings.Repeat("⟨U+0301⟩", 2),
	} {
		if got := visible(give); got != want {
			t.Errorf("visible(%q) = %q, want %q", give, got, want)
		}
	}
	if got := visibleLines("a\n\tb\r"); got != "a\n\tb␍" {
		t.Errorf("visibleLines = %q", got)
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("\u202e<b>\x00\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := visible(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) }) {
			t.Errorf("visible(%q) = %q", s, got)
		}
	})
}

func TestLongIDsKeepTheirEnds(t *testing.T) {
	t.Parallel()
	for give, want := range map[string]string{
		"evt_1": "evt_1", strings.Repeat("ü", 28): strings.Repeat("ü", 28), "evt_ep6qp2kvushaxzijq4xeyjnpvw_13": "evt_ep6qp2kvusha…xeyjnpvw_13",
	} {
		if got := newID(give); got.Full != give || got.Short != want {
			t.Errorf("newID(%q) = %q, want %q", give, got.Short, want)
		}
	}
}

// Every number and key of a JSON body is shown as the body spells it.
func TestJSONTreeIsExact(t *testing.T) {
	t.Parallel()
	const raw = "\ufeff" + `{"n": 12345678901234567890.10, "n": 1e400, "s":"\u202e\n", "l":[true,null,{}, [ ]]}`
	tree, err := parseTree([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var walk func(*jsonNode)
	walk = func(n *jsonNode) {
		got = append(got, n.Key+"="+n.Open+n.Text)
		for i := range n.Children {
			walk(&n.Children[i])
		}
	}
	walk(tree)
	want := `={ "n"=12345678901234567890.10 "n"=1e400 "s"="\u202e\n" "l"=[ =true =null ={ =[`
	if strings.Join(got, " ") != want {
		t.Errorf("tree %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestBodyViews(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, raw, contentType, mode string
		want                         string // the mode that is shown
		has                          string // in its text
		note, cut                    bool
	}{
		{name: "JSON", raw: `{"a":1}`, want: bodyPretty},
		{name: "JSON as it is", raw: "{\"a\":1}\r\n", mode: bodyRaw, want: bodyRaw, has: "{\"a\":1}␍\n"},
		{name: "JSON in bytes", raw: `{"a":1}`, mode: bodyHex, want: bodyHex, has: "7b 22 61 22 3a 31 7d"},
		{name: "a form", raw: "a=1&b=%3Cb%3E", contentType: "application/x-www-form-urlencoded; charset=utf-8", want: bodyPretty},
		{name: "a broken form", raw: "a=%zz", contentType: "application/x-www-form-urlencoded", want: bodyRaw, has: "a=%zz"},
		{name: "text", raw: "hello", want: bodyRaw, has: "hello"},
		{name: "two values", raw: `{} {}`, want: bodyRaw},
		{name: "not UTF-8", raw: "\xff\xfe", mode: bodyRaw, want: bodyHex, has: "ff fe", note: true},
		{name: "deep", raw: strings.Repeat("[", 100) + strings.Repeat("]", 100), want: bodyRaw, note: true},
		{name: "very deep", raw: strings.Repeat("[", 100_000), want: bodyRaw},
		{name: "many values", raw: "[" + strings.Repeat("1,", maxShownNodes) + "1]", want: bodyRaw, note: true},
		{name: "long", raw: `"` + strings.Repeat("ü", maxShownText) + `"`, want: bodyRaw, note: true, cut: true},
		{name: "empty", want: bodyRaw},
	}
	for _, tt := range tests {
		v := newBodyView([]byte(tt.raw), tt.contentType, tt.mode)
		if v.Mode != tt.want || !strings.Contains(v.Text, tt.has) || (v.Note != "") != tt.note || (v.Cut != "") != tt.cut {
			t.Errorf("%s: mode %s, note %q, cut %q, text %.80q", tt.name, v.Mode, v.Note, v.Cut, v.Text)
		}
		if strings.ContainsRune(v.Text, utf8.RuneError) || strings.Contains(v.Text, "⟨C3⟩") {
			t.Errorf("%s: the cut splits a character", tt.name)
		}
	}
}

// A shell prints the words of a command as they were given.
func TestShellQuoting(t *testing.T) {
	t.Parallel()
	for _, word := range []string{
		"", "plain", "two words", "it's", `"$HOME"`, "`id`", "$(id)", "a\nb", `\`, "'", "''", "-n", "~", "*", "!!", "ü 日本", "#x", "a;b", "&", "|", ">x",
		strings.Join(rig.HiddenTexts(), "'"), "a\u202e\n", "\u3000", "\xff%",
	} {
		if c, found := rig.HiddenIn(shellQuoted(word)); found {
			t.Errorf("%q: %U is in %s", word, c, shellQuoted(word))
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s.' "+shellQuoted(word)).Output()
		if err != nil || string(out) != word+"." {
			t.Errorf("%q became %q (%v)", word, out, err)
		}
	}
}

// The command of a stored request holds its bytes and headers, and nothing that a shell would run.
func TestCurlCommand(t *testing.T) {
	t.Parallel()
	headers := http.Header{"X-Sig": {"a'b", "bad\nline"}, "Host": {"x"}, "Content-Length": {"9"}, "Content-Type": {"text/plain"}}
	got := curlCommand("http://h/webhooks/lab", "f.body", headers, []byte("it's $(id)"))
	want := "curl -X POST http://h/webhooks/lab \\\n  -H 'Content-Type: text/plain' \\\n  -H 'X-Sig: a'\\''b' \\\n  --data-binary 'it'\\''s $(id)'"
	if got != want {
		t.Errorf("command\n%s\nwant\n%s", got, want)
	}
	for _, body := range []string{"\x00", "line\nfeed", "@/etc/passwd", strings.Repeat("x", maxCommandBody+1)} {
		if got := curlCommand("http://h/", "f.body", nil, []byte(body)); !strings.HasSuffix(got, "--data-binary @f.body") {
			t.Errorf("body %.20q: command %s", body, got)
		}
	}
}

// A command that takes the token names an http address on this machine only.
func TestCommandsNameTheGateway(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"127.0.0.1:8081":        "--from http://127.0.0.1:8081",
		"localhost:8081":        "--from http://localhost:8081",
		"hooks.example.com":     "--from https://hooks.example.com",
		"10.0.0.1:8081":         "--from https://10.0.0.1:8081",
		"x$(id).example.com:80": "--from 'https://x$(id).example.com:80'",
	} {
		if got := from("from", &http.Request{Host: host, URL: &url.URL{}}); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

func TestMountedAt(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"/admin/events/lab/a%2Fb?x=/events": "/admin", "/admin/x/": "/admin/x", "/admin": "/admin", "/events": "", "/": "",
		"//evil.example/": "", "http://evil.example/events": "", "*": "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RequestURI = uri
		path, _, _ := strings.Cut(uri, "?")
		if want != "" {
			path = strings.TrimPrefix(path, want)
		}
		r.URL = &url.URL{Path: strings.ReplaceAll(path, "%2F", "/"), RawPath: path}
		if got := mountedAt(r); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
}

func TestBodyFile(t *testing.T) {
	t.Parallel()
	for give, want := range map[string]string{
		"evt_1": "event-evt_1.body", `../"x"` + "\r\n;": "event-____x____.body", strings.Repeat("ü", 90): "event-" + strings.Repeat("_", 80) + ".body",
	} {
		if got := bodyFile(give); got != want {
			t.Errorf("%q: %q, want %q", give, got, want)
		}
	}
}

// The axis is logarithmic, begins at the first moment and ends at the last.
func TestTimeline(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	d := &EventDetail{
		Event:      Event{ReceivedAt: Time(at)},
		Deliveries: Deliveries{Count: 3, FirstAt: Time(at), LastAt: Time(at.Add(time.Minute))},
		Messages:   []Message{{ID: "m", Destination: "billing", DueAt: Time(at.Add(time.Hour))}},
		Attempts:   []Attempt{{MessageID: "m", Number: 1, Outcome: "retry", At: Time(at.Add(time.Second)), Error: "answered 500"}},
		History:    []History{{At: Time(at.Add(2 * time.Second)), Action: "replayed_as_new"}},
	}
	line := newTimeline(d, at.Add(2*time.Minute))
	var got []string
	for _, m := range line.Moments {
		got = append(got, m.After+" "+m.Lane+" "+m.Kind+" "+m.What)
	}
	want := []string{
		"+0 ms deliveries delivery first delivery", "+0 ms event event claimed", "+1 s → billing retry attempt 1 failed",
		"+2 s event event replayed as new", "+1 min deliveries duplicate last of 3 deliveries", "+1 h → billing due next attempt due",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("moments:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// All deliveries are kept, so the time of their count is not one of them.
	d.Deliveries.Recent = []Delivery{{At: Time(at.Add(2 * time.Second))}, {At: Time(at.Add(time.Second))}, {At: Time(at)}}
	for _, m := range newTimeline(d, at.Add(2*time.Minute)).Moments {
		if strings.HasPrefix(m.What, "last of") {
			t.Errorf("three known deliveries of three, and %s at %s", m.What, m.After)
		}
	}
	d.Deliveries.Recent = nil
	c := line.Chart
	if len(c.Lanes) != 3 || c.Marks[0].X != 0 || c.Marks[5].X != 100 || c.Now == nil || c.Now.X <= c.Marks[4].X || c.Now.X >= 100 {
		t.Errorf("chart %+v", c)
	}
	if c.Marks[2].X > 50 || c.Marks[2].X < 13 {
		t.Errorf("a second of an hour is at %v %%: the axis is not logarithmic", c.Marks[2].X)
	}
	d.Messages[0].DueAt = Time(at.Add(200 * 24 * time.Hour))
	before := -13.0 // an axis of 300 pixels has 39 for the name of each tick
	for _, tick := range newTimeline(d, at).Chart.Ticks {
		if tick.Spare {
			continue
		}
		if tick.X < before+13 {
			t.Errorf("the tick %s stands at %v %%, and the one before at %v %%", tick.Name, tick.X, before)
		}
		before = tick.X
	}
	d.Messages[0].DueAt = Time(at.Add(time.Hour))
	for range 300 {
		d.Attempts = append(d.Attempts, Attempt{MessageID: "gone", Number: 2, Outcome: "dead", At: Time(at.Add(time.Second))})
	}
	if line := newTimeline(d, at); len(line.Moments) != maxMoments || line.Left != 106 {
		t.Errorf("%d moments, %d left out", len(line.Moments), line.Left)
	}
	for kind := range marks {
		for other, shape := range marks {
			if kind != other && marks[kind] == shape {
				t.Errorf("%s and %s have one shape", kind, other)
			}
		}
	}
}

// A long text unfolds by <details>. A browser ends a paragraph before that, which leaves an empty one.
func TestNoParagraphHoldsATextThatUnfolds(t *testing.T) {
	t.Parallel()
	names, err := files.ReadDir("templates")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d templates, %v", len(names), err)
	}
	for _, entry := range names {
		source, err := files.ReadFile("templates/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(source)) {
			if paragraph.MatchString(line) {
				t.Errorf("%s: %s", entry.Name(), line)
			}
		}
	}
}

var paragraph = regexp.MustCompile(`<p\b[^>]*>[^<]*{{template "text"`)

// A gateway that has just started has not seen a destination fail, so the figures of a day count, too.
func TestADestinationThatOnlyFailsDoesNotWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lately *destinationActivity
		want   string
	}{
		{nil, "working"},
		{&destinationActivity{Success: "–"}, "working"},
		{&destinationActivity{Attempts: 9, Success: "11.1%"}, "working"},
		{&destinationActivity{Attempts: 9, Success: "0%"}, "watch"},
	} {
		d := &destinationRow{Health: "working"}
		if d.judge(c.lately); d.Health != c.want {
			t.Errorf("with %+v it is %s, want %s", c.lately, d.Health, c.want)
		}
	}
}
