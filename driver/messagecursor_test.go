package driver_test

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// cursorKey is the key of the tests' cursors.
var cursorKey = driver.EventKey("stripe", "evt_1")

func messageCursorAt(at time.Time, id string) driver.MessageCursor {
	return driver.MessageCursor{Event: driver.Cursor{ReceivedAt: at, Key: cursorKey}, ID: id}
}

func TestMessageCursorText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	for _, c := range []struct {
		name   string
		cursor driver.MessageCursor
		want   string
	}{
		{"zero", driver.MessageCursor{}, ""},
		{"an event that is dead itself", messageCursorAt(at, ""), "AAZHXvZXTzWFL9vD1UeEt7rufULXW34drTFLlU-EeKv1HpBGjDpbbQ"},
		{"a message", messageCursorAt(at, "msg_a"), "AAZHXvZXTzWFL9vD1UeEt7rufULXW34drTFLlU-EeKv1HpBGjDpbbW1zZ19h"},
	} {
		text := c.cursor.String()
		if text != c.want {
			t.Errorf("%s: got the text %q, want %q", c.name, text, c.want)
		}
		messageCursorSurvives(t, c.cursor)
	}
	for _, id := range []string{
		driver.MessageID(cursorKey, 3, "billing"), "it's", "caf\u00e9", "\U0001F600", " ", "=", strings.Repeat("x", 255),
	} {
		messageCursorSurvives(t, messageCursorAt(at, id))
	}
	messageCursorSurvives(t, messageCursorAt(time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC), "msg_a"))
	messageCursorSurvives(t, messageCursorAt(time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), "msg_a"))
}

// messageCursorSurvives checks that a cursor survives String and ParseMessageCursor.
func messageCursorSurvives(t *testing.T, want driver.MessageCursor) {
	t.Helper()
	got, err := driver.ParseMessageCursor(want.String())
	if err != nil {
		t.Errorf("ParseMessageCursor(%q): %v", want.String(), err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after String and ParseMessageCursor (-want +got):\n%s", diff)
	}
}

func TestMessageCursorIsZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cursor driver.MessageCursor
		want   bool
	}{
		{driver.MessageCursor{}, true},
		{messageCursorAt(time.Unix(0, 0), ""), false},
		{messageCursorAt(time.Unix(0, 0), "msg_a"), false},
	} {
		if got := c.cursor.IsZero(); got != c.want {
			t.Errorf("IsZero of %+v is %v, want %v", c.cursor, got, c.want)
		}
	}
}

func TestParseMessageCursorRefuses(t *testing.T) {
	t.Parallel()
	good := messageCursorAt(time.Unix(1, 0), "msg_a").String()
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	for name, text := range map[string]string{
		"blank":                 " ",
		"short":                 "AAAA",
		"39 bytes":              encode(raw[:39]),
		"one character more":    good + "A",
		"padding":               good + "=",
		"a line break at last":  good + "\n",
		"a line break within":   good[:10] + "\r\n" + good[10:],
		"a blank before":        " " + good,
		"the other alphabet":    base64.RawStdEncoding.EncodeToString(append(raw[:40:40], 0xfb, 0xff)),
		"an id of 256 bytes":    messageCursorAt(time.Unix(1, 0), strings.Repeat("x", 256)).String(),
		"an id of a megabyte":   messageCursorAt(time.Unix(1, 0), strings.Repeat("x", 1<<20)).String(),
		"an id that is no text": messageCursorAt(time.Unix(1, 0), "\xff").String(),
		"half a character":      messageCursorAt(time.Unix(1, 0), "caf\u00e9"[:4]).String(),
		"a NUL in the id":       messageCursorAt(time.Unix(1, 0), "msg\x00").String(),
		"the year 10000":        messageCursorAt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "msg_a").String(),
		"the year 0":            messageCursorAt(time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), "msg_a").String(),
		"the zero time":         zeroTimeCursor(),
		"the zero time, and id": zeroTimeCursor() + "AAAA",
		"a cursor of quotes":    "'; DROP TABLE event; --",
	} {
		if got, err := driver.ParseMessageCursor(text); err == nil {
			t.Errorf("%s: ParseMessageCursor of %.60q returned %+v, want an error", name, text, got)
		}
	}
}

// TestCursorsAreApart checks that ParseCursor refuses a cursor of messages. The reverse is allowed:
// a cursor of events reads as a cursor of messages after the event's last message.
func TestCursorsAreApart(t *testing.T) {
	t.Parallel()
	if _, err := driver.ParseCursor(messageCursorAt(time.Unix(1, 0), "msg_a").String()); err == nil {
		t.Error("ParseCursor read a cursor of messages")
	}
}

// FuzzParseMessageCursor checks that no text causes a panic, that every accepted text is the one
// that String writes, and that every accepted cursor is a place that a database can have.
func FuzzParseMessageCursor(f *testing.F) {
	for _, at := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1767323045678901} {
		for _, id := range []string{"", "msg_a", "\xff", "a\x00"} {
			f.Add(messageCursorAt(time.UnixMicro(at), id).String())
		}
	}
	f.Add("not a cursor")
	f.Fuzz(func(t *testing.T, text string) {
		cursor, err := driver.ParseMessageCursor(text)
		if err != nil {
			return
		}
		if got := cursor.String(); got != text {
			t.Errorf("ParseMessageCursor and String turn %q into %q", text, got)
		}
		year := cursor.Event.ReceivedAt.Year()
		if !cursor.IsZero() && (year < 1 || year > 9999) || len(cursor.ID) > 255 || strings.ContainsRune(cursor.ID, 0) {
			t.Errorf("ParseMessageCursor of %q returned %+v", text, cursor)
		}
	})
}
