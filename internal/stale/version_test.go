package stale

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func encoded(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, parts ...string,
) []byte {
	t.Helper()
	v, err := encodeVersion(parts)
	if err != nil {
		t.Fatalf("%q: %v", parts, err)
	}
	if len(v) == 0 || len(v) > maxVersion {
		t.Fatalf("%q: %d bytes", parts, len(v))
	}
	return v
}

// numbers draws numbers in all spellings, often numbers that are close to one another.
func numbers() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[-+]?[0-9]{1,3}(\.[0-9]{1,3})?([eE][-+]?[0-9]{1,2})?`),
		rapid.StringMatching(`-?0{0,3}[019]{1,12}(\.[019]{1,12})?(e-?0?[0-9])?`),
		rapid.StringMatching(`-?[1-9][0-9]{0,80}(\.[0-9]{1,80})?`),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.Int64().Draw(t, "int")) }),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("%g", rapid.Float64().Draw(t, "float")) }).
			Filter(func(s string) bool { return strings.Trim(s, "0123456789.e+-") == "" }),
	)
}

func TestVersionsOfNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := [2]string{numbers().Draw(t, "a"), numbers().Draw(t, "b")}
		var exact [2]*big.Rat
		for i, text := range texts {
			var ok bool
			if exact[i], ok = new(big.Rat).SetString(text); !ok {
				t.Fatalf("%q is no number to math/big", text)
			}
			if got := encoded(t, text)[0]; got != versionNumber {
				t.Fatalf("%q is of class %d", text, got)
			}
		}
		want := exact[0].Cmp(exact[1])
		if got := bytes.Compare(encoded(t, texts[0]), encoded(t, texts[1])); got != want {
			t.Fatalf("%s against %s: %d, want %d", texts[0], texts[1], got, want)
		}
	})
}

// times draws a time and its text, in any zone, with any fraction.
func drawTime(t *rapid.T, label string) (exact *big.Rat, text string) {
	seconds := rapid.OneOf(rapid.Int64Range(-62135596800, 253402300799), rapid.Int64Range(-2, 2)).Draw(t, label)
	zone := rapid.IntRange(-23*60-59, 23*60+59).Draw(t, label+" zone") * 60
	fraction := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`\.[09]{1,15}`), rapid.StringMatching(`\.[0-9]{1,15}`)).Draw(t, label+" fraction")
	at := time.Unix(seconds, 0).In(time.FixedZone("", zone))
	if at.Year() < 0 || at.Year() > 9999 {
		at = at.UTC()
	}
	exact = new(big.Rat).SetInt64(seconds)
	if fraction != "" {
		f, _ := new(big.Rat).SetString("0" + fraction)
		exact.Add(exact, f)
	}
	return exact, at.Format("2006-01-02T15:04:05") + fraction + at.Format("Z07:00")
}

func TestVersionsOfTimes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		exactA, a := drawTime(t, "a")
		exactB, b := drawTime(t, "b")
		for _, text := range []string{a, b} {
			if got := encoded(t, text)[0]; got != versionTime {
				t.Fatalf("%q is of class %d", text, got)
			}
		}
		if got, want := bytes.Compare(encoded(t, a), encoded(t, b)), exactA.Cmp(exactB); got != want {
			t.Fatalf("%s against %s: %d, want %d", a, b, got, want)
		}
	})
}

func TestVersionsOfText(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.StringMatching(`v[a-c.]{0,5}`), rapid.StringMatching(`[g-z ~é€😀][ -~]{0,60}`))
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		if got, want := bytes.Compare(encoded(t, a), encoded(t, b)), cmp.Compare(a, b); got != want {
			t.Fatalf("%q against %q: %d, want %d", a, b, got, want)
		}
	})
}

// Versions of several parts compare part by part.
func TestVersionsOfParts(t *testing.T) {
	t.Parallel()
	part := rapid.OneOf(numbers(), rapid.StringMatching(`v[ab]{0,2}`), rapid.Custom(func(t *rapid.T) string {
		_, text := drawTime(t, "time")
		return text
	}))
	parts := rapid.SliceOfN(part, 1, 3).Filter(func(p []string) bool { return len(strings.Join(p, "")) < 200 })
	rapid.Check(t, func(t *rapid.T) {
		a, b := parts.Draw(t, "a"), parts.Draw(t, "b")
		want := cmp.Compare(len(a), len(b))
		for i := range min(len(a), len(b)) {
			if c := bytes.Compare(encoded(t, a[i]), encoded(t, b[i])); c != 0 {
				want = c
				break
			}
		}
		if got := bytes.Compare(encoded(t, a...), encoded(t, b...)); got != want {
			t.Fatalf("%q against %q: %d, want %d", a, b, got, want)
		}
	})
}

func TestVersionsInOrder(t *testing.T) {
	t.Parallel()
	// Versions on one line are equal, and lower than those on the next line.
	lines := [][]string{
		{"-1e1000000000", "-10e999999999"},
		{"-12", "-12.0", "-0012", "-1.2e1"},
		{"-11.5"},
		{"-0.001", "-1e-3"},
		{"0", "-0", "0.0", "+0", "0e99999999999999999999", "000"},
		{"1e-1000000000"},
		{"0.1", "1e-1"},
		{"1", "1.0", "1e0", "10e-1", "0.1E+1", "+1", "001"},
		{"2"},
		{"10"},
		{"1767225600"},
		{"12345678901234567890.1"},
		{"12345678901234567890.2"},
		{"1" + strings.Repeat("0", 250), "1e250"},
		{"1e1000000000"},
		{"0000-01-01T00:00:00Z"},
		{"2026-01-01T00:00:00Z", "2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00.000+01:00", "2025-12-31T23:59:60Z"},
		{"2026-01-01T00:00:00.0000000000001Z"},
		{"2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.10-00:00", "2025-12-31T23:59:60.1Z"},
		{"9999-12-31T23:59:59.999999999Z"},
		{"-"},
		{"1."},
		{"10:00"},
		{"1e"},
		{"2026-01-01"},
		{"2026-01-01 00:00:00Z"},
		{"2026-02-30T00:00:00Z"},
		{"a"},
		{"a1"},
		{"b"},
	}
	var before []byte
	for i, line := range lines {
		first := encoded(t, line[0])
		if bytes.Compare(before, first) >= 0 {
			t.Errorf("%q is not below %q", lines[i-1][0], line[0])
		}
		for _, other := range line[1:] {
			if !bytes.Equal(first, encoded(t, other)) {
				t.Errorf("%q and %q differ", line[0], other)
			}
		}
		before = first
	}
}

func TestVersionsTooLong(t *testing.T) {
	t.Parallel()
	for _, parts := range [][]string{
		{"1e9999999999"},
		{"-1e-9999999999"},
		{"1e1073741824"},
		{strings.Repeat("9", 255)},
		{strings.Repeat("x", 254)},
		{"2026-01-01T00:00:00." + strings.Repeat("1", 246) + "Z"},
		{strings.Repeat("x", 150), strings.Repeat("y", 150)},
	} {
		if v, err := encodeVersion(parts); !errors.Is(err, errVersionTooLong) {
			t.Errorf("%q: %x, %v", parts, v, err)
		}
	}
	encoded(t, strings.Repeat("9", 248))
	encoded(t, strings.Repeat("x", 253))
	encoded(t, "1"+strings.Repeat("0", 254))
}
