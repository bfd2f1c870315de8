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

func TestCursorText(t *testing.T) {
	t.Parallel()
	key := driver.EventKey("stripe", "evt_1")
	for _, c := range []struct {
		name   string
		cursor driver.Cursor
		want   string
	}{
		{"zero", driver.Cursor{}, ""},
		{
			"microseconds",
			driver.Cursor{ReceivedAt: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC), Key: key},
			"AAZHXvZXTzWFL9vD1UeEt7rufULXW34drTFLlU-EeKv1HpBGjDpbbQ",
		},
		{
			"before 1970",
			driver.Cursor{ReceivedAt: time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC), Key: key},
			"__________-FL9vD1UeEt7rufULXW34drTFLlU-EeKv1HpBGjDpbbQ",
		},
	} {
		text := c.cursor.String()
		if text != c.want {
			t.Errorf("%s: got the text %q, want %q", c.name, text, c.want)
		}
		back, err := driver.ParseCursor(text)
		if err != nil {
			t.Errorf("%s: ParseCursor: %v", c.name, err)
		}
		if diff := cmp.Diff(c.cursor, back); diff != "" {
			t.Errorf("%s: after String and ParseCursor (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestCursorIsZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cursor driver.Cursor
		want   bool
	}{
		{driver.Cursor{}, true},
		{driver.Cursor{ReceivedAt: time.Unix(0, 0)}, false},
		{driver.Cursor{ReceivedAt: time.Unix(1, 0), Key: driver.Key{1}}, false},
	} {
		if got := c.cursor.IsZero(); got != c.want {
			t.Errorf("IsZero of %+v is %v, want %v", c.cursor, got, c.want)
		}
	}
}

func TestParseCursorRefuses(t *testing.T) {
	t.Parallel()
	good := driver.Cursor{ReceivedAt: time.Unix(1, 0), Key: driver.EventKey("s", "1")}.String()
	for _, text := range []string{
		" ", "0", "x", good + "A", good[:len(good)-1], good + "=", good + "\n", good[:10] + "\n" + good[10:], " " + good,
		strings.ReplaceAll(good, "A", "+"), "%00", strings.Repeat("A", 55), strings.Repeat("A", 1<<16),
		base64.RawURLEncoding.EncodeToString(make([]byte, 41)), base64.RawURLEncoding.EncodeToString(make([]byte, 39)),
		driver.Cursor{ReceivedAt: time.Unix(1, 0)}.String() + "\r", zeroTimeCursor(),
	} {
		if got, err := driver.ParseCursor(text); err == nil {
			t.Errorf("ParseCursor of %.60q returned %+v, want an error", text, got)
		}
	}
}

// zeroTimeCursor returns the text of a cursor at the zero time. String never writes it: its place
// is before the first event.
func zeroTimeCursor() string {
	buf := binary.BigEndian.AppendUint64(nil, uint64(time.Time{}.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(buf, make([]byte, 32)...))
}

// FuzzParseCursor checks that no text causes a panic and that every accepted text is the one that
// String writes.
func FuzzParseCursor(f *testing.F) {
	key := driver.EventKey("stripe", "evt_1")
	for _, at := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1767323045678901} {
		f.Add(driver.Cursor{ReceivedAt: time.UnixMicro(at), Key: key}.String())
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
	})
}
