package driver_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
)

func TestErrorSignature(t *testing.T) {
	long := strings.Repeat("é", 150)
	for text, want := range map[string]string{
		"":                                 driver.NoErrorSignature,
		"500 Internal Server Error":        "# Internal Server Error",
		"answered 404 Not Found: order 17": "answered 404 Not Found: order #",
		"it answered 500":                  "it answered 500",
		"answered 503: answered\n404#":     "answered 503: answered 404#",
		"answered 5000, answered 50, answered 1x":           "answered #, answered #, answered #",
		"unanswered 404, answered  404":                     "unanswered #, answered  #",
		"dial tcp 10.0.0.7:8080: i/o timeout":               "dial tcp #.#.#.#:#: i/o timeout",
		"order 4711 of 2024-11-23T02:09:15.123Z":            "order # of #-#-#:#:#.#",
		"no user 3f2b8c1e-9d4a-4b6f-8e2d-0a1b2c3d4e5f here": "no user # here",
		"no user 3F2B8C1E-9D4A-4B6F-8E2D-0A1B2C3D4E5F":      "no user #",
		"id 3f2b8c1e-9d4a-4b6f-8e2d":                        "id #-#-#-#",
		"no customer cus_NffrFeUfNV2Hib":                    "no customer cus_#",
		"sum deadbeef, face, 0x1f":                          "sum #, face, #",
		"a\r\nb\tc\u0085":                                   "a b c ",
		"größe 3":                                           "größe #",
		"٣ is no ASCII digit":                               "٣ is no ASCII digit",
		"bad \xff byte, \x00":                               "bad \uFFFD byte,  ",
		long:                                                long[:200],
		"x" + long:                                          "x" + long[:198],
		strings.Repeat("1 ", 500) + "tail":                  strings.Repeat("# ", 100),
		strings.Repeat("7", 999) + "x tail":                 "#",
		strings.Repeat("z", 200) + "1":                      "#",
		strings.Repeat("z", 1000) + "1":                     strings.Repeat("z", 200),
	} {
		if got := driver.ErrorSignature(text); got != want {
			t.Errorf("ErrorSignature(%.60q) = %q, want %q", text, got, want)
		}
	}
}

// status matches the numbers that a signature keeps; at its end they may be cut.
var status = regexp.MustCompile(`answered ([0-9]{3}|[0-9]{0,3}$)`)

func FuzzErrorSignature(f *testing.F) {
	for _, seed := range []string{"", "1", "a1", strings.Repeat("é", 300), "deadbeef-", "answered 404", "\xff\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := driver.ErrorSignature(text)
		rest := status.ReplaceAllString(got, "")
		if got == "" || len(got) > driver.MaxSignature || !utf8.ValidString(got) || strings.ContainsAny(rest, "0123456789\x00\n") {
			t.Fatalf("ErrorSignature(%q) = %q", text, got)
		}
		// The end of a full signature may be a part of a status.
		if again := driver.ErrorSignature(got); again != got && len(got) < driver.MaxSignature-3 {
			t.Fatalf("the signature of the signature %q is %q", got, again)
		}
	})
}

func TestGroupCursor(t *testing.T) {
	for _, c := range []driver.GroupCursor{{}, {Name: "billing", Signature: "# no"}, {Events: true}, {Events: true, Name: "é", Signature: "s"}} {
		got, err := driver.ParseGroupCursor(c.String())
		if err != nil || got != c {
			t.Errorf("%+v came back as %+v, %v", c, got, err)
		}
	}
	for _, bad := range []string{"x", "bQ", "bWEAYgBj", "bWEAYg==", "bWEAYg\n", "eHgAeA", "bf8A", strings.Repeat("bWEA", 1000)} {
		if got, err := driver.ParseGroupCursor(bad); err == nil {
			t.Errorf("%q is accepted as %+v", bad, got)
		}
	}
}
