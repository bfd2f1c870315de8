package cli

import (
	"cmp"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/hookadmin"
)

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

// remark returns the note, or else the error, for a table cell; "-" for none.
func remark(note, lastError string) string { return orDash(cmp.Or(note, lastError)) }

func status(code *int) string {
	if code == nil {
		return "-"
	}
	return strconv.Itoa(*code)
}
