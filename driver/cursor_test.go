package driver_test

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// cursorKey is the key of the tests' cursors.
var cursorKey = driver.EventKey("stripe", "evt_1")

func cursorAt(at time.Time, id string) driver.Cursor {
	return driver.Cursor{At: at, Key: cursorKey, ID: id}
}

func TestCursorText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	beforeUnix := time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC)
	for _, c := range []struct {
		name   string
		cursor driver.Cursor
		want   string
	}{
		{"zero", driver.Cursor{}, ""},
		{"an event", cursorAt(at, ""), "AAZHXvZXTzWFL9vD1UeEt7rufULXW34drTFLlU-EeKv1HpBGjDpbbQ"},
		{"before 1970", cursorAt(beforeUnix, ""), "__________-FL9vD1UeEt7rufULXW34drTFLlU-EeKv1HpBGjDpbbQ"},
		{"a message", cursorAt(at, "msg_a"), "AAZHXvZXTzWFL9vD1UeEt7rufULXW34drTFLlU-EeKv1HpBGjDpbbW1zZ19h"},
	} {
		text := c.cursor.String()
		if text != c.want {
			t.Errorf("%s: got the text %q, want %q", c.name, text, c.want)
		}
		cursorSurvives(t, c.cursor)
	}
	for _, id := range []string{
		driver.MessageID(cursorKey, 3, "billing"), "it's", "caf\u00e9", "\U0001F600", " ", "=", strings.Repeat("x", 255),
	} {
		cursorSurvives(t, cursorAt(at, id))
	}
	cursorSurvives(t, cursorAt(beforeUnix, "msg_a"))
	cursorSurvives(t, cursorAt(time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), "msg_a"))
	cursorSurvives(t, driver.Cursor{At: at, ID: "job_1"})
}

// cursorSurvives checks that a cursor survives String and ParseCursor.
func cursorSurvives(t *testing.T, want driver.Cursor) {
	t.Helper()
	got, err := driver.ParseCursor(want.String())
	if err != nil {
		t.Errorf("ParseCursor(%q): %v", want.String(), err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after String and ParseCursor (-want +got):\n%s", diff)
	}
}

func TestCursorIsZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cursor driver.Cursor
		want   bool
	}{
		{driver.Cursor{}, true},
		{driver.Cursor{At: time.Unix(0, 0)}, false},
		{driver.Cursor{At: time.Unix(1, 0), Key: driver.Key{1}}, false},
		{cursorAt(time.Unix(0, 0), "msg_a"), false},
	} {
		if got := c.cursor.IsZero(); got != c.want {
			t.Errorf("IsZero of %+v is %v, want %v", c.cursor, got, c.want)
		}
	}
}

func TestParseCursorRefuses(t *testing.T) {
	t.Parallel()
	event, good := cursorAt(time.Unix(1, 0), "").String(), cursorAt(time.Unix(1, 0), "msg_a").String()
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	for name, text := range map[string]string{
		"blank":                 " ",
		"one character":         "0",
		"short":                 "AAAA",
		"39 bytes":              encode(raw[:39]),
		"one character more":    good + "A",
		"more than an event":    event + "A",
		"one character less":    event[:len(event)-1],
		"padding":               good + "=",
		"a line break at last":  good + "\n",
		"behind an event":       event + "\r",
		"a line break within":   good[:10] + "\r\n" + good[10:],
		"a blank before":        " " + good,
		"an escape":             "%00",
		"another character":     strings.ReplaceAll(good, "A", "+"),
		"the other alphabet":    base64.RawStdEncoding.EncodeToString(append(raw[:40:40], 0xfb, 0xff)),
		"55 characters":         strings.Repeat("A", 55),
		"64 KiB":                strings.Repeat("A", 1<<16),
		"an id of 256 bytes":    cursorAt(time.Unix(1, 0), strings.Repeat("x", 256)).String(),
		"an id of a megabyte":   cursorAt(time.Unix(1, 0), strings.Repeat("x", 1<<20)).String(),
		"an id that is no text": cursorAt(time.Unix(1, 0), "\xff").String(),
		"half a character":      cursorAt(time.Unix(1, 0), "caf\u00e9"[:4]).String(),
		"a NUL in the id":       cursorAt(time.Unix(1, 0), "msg\x00").String(),
		"the year 10000":        cursorAt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "msg_a").String(),
		"the year 0":            cursorAt(time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), "msg_a").String(),
		"the zero time":         zeroTimeCursor(),
		"the zero time, and id": zeroTimeCursor() + "AAAA",
		"a cursor of quotes":    "'; DROP TABLE event; --",
	} {
		if got, err := driver.ParseCursor(text); err == nil {
			t.Errorf("%s: ParseCursor of %.60q returned %+v, want an error", name, text, got)
		}
	}
}

// zeroTimeCursor returns the text of a cursor at the zero time. String never writes it: its place
// is before the first event.
func zeroTimeCursor() string {
	buf := binary.BigEndian.AppendUint64(nil, uint64(time.Time{}.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(buf, make([]byte, 32)...))
}

// FuzzParseCursor checks that no text causes a panic, that every accepted text is the one that String
// writes, and that every accepted cursor is a place that a database can have.
func FuzzParseCursor(f *testing.F) {
	for _, at := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1767323045678901} {
		for _, id := range []string{"", "msg_a", "\xff", "a\x00"} {
			f.Add(cursorAt(time.UnixMicro(at), id).String())
		}
	}
	f.Add("")
	f.Add("not a cursor")
	f.Fuzz(func(t *testing.T, text string) {
		cursor, err := driver.ParseCursor(text)
		if err != nil {
			return
		}
		if got := cursor.String(); got != text {
			t.Errorf("ParseCursor and String turn %q into %q", text, got)
		}
		year := cursor.At.Year()
		if !cursor.IsZero() && (year < 1 || year > 9999) || len(cursor.ID) > 255 || strings.ContainsRune(cursor.ID, 0) {
			t.Errorf("ParseCursor of %q returned %+v", text, cursor)
		}
	})
}
