package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/hookadmin"
)

// duration formats a duration for people: in milliseconds, and from one second on in seconds.
func duration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 0.095:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// seconds is duration for a number of seconds.
func seconds(s float64) string { return duration(time.Duration(s * float64(time.Second))) }

// momentForm is the form of a time for people.
const momentForm = "2006-01-02 15:04:05Z"

// moment formats a time for people: in UTC, to the second; "-" for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(momentForm)
}

// at is moment for a time of the API.
func at(t hookadmin.Time) string { return moment(time.Time(t)) }

// orDash returns s, or "-" if s is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// counted returns "1 event", "2 events".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// grouped writes a number with commas: 10,000.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// remark returns the note, or else the error, for a table cell; "-" for none.
func remark(note, lastError string) string { return orDash(cmp.Or(note, lastError)) }

func status(code *int) string {
	if code == nil {
		return "-"
	}
	return strconv.Itoa(*code)
}
