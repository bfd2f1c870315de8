// Package runbook names the entries of docs/runbook.md that pages and messages lead to.
package runbook

import (
	"strings"
	"unicode"
)

// Entry is the title of an entry.
type Entry string

// The entries that pages and messages lead to. These and alerts lead to the rest.
const (
	Unauthorized      Entry = "A sender reports 401"
	TLS               Entry = "A sender reports a TLS error"
	NotFound          Entry = "A sender reports 404"
	Unreadable        Entry = "A sender reports 400, or the quarantine grows"
	RefusedByDatabase Entry = `The log says "quarantined: the database refuses the event"`
	TooLarge          Entry = "A sender reports 413, 415 or 431"
	TooMany           Entry = "A sender reports 429"
	Flood             Entry = "A flood of refused requests"
	Unavailable       Entry = "Senders report 503, or /readyz fails"
	SetUp             Entry = "A set-up request of a provider is refused with 403"

	Missing          Entry = "An event is missing"
	Pending          Entry = "Events stay `pending`"
	Running          Entry = "Events stay `running`"
	NoRoute          Entry = "Events end as `done` with the note `no route`"
	Twice            Entry = "An effect happened twice"
	WrongDestination Entry = "Events went to the wrong destination"

	DeadLetters        Entry = "There are dead letters"
	Waiting            Entry = "Messages wait for a destination"
	Broker             Entry = "Messages wait for a broker"
	RowRefused         Entry = `The log says "the database refuses to change the row of a message"`
	UnknownDestination Entry = "Messages wait for an unknown destination"

	NoStart       Entry = "It does not start"
	NoReload      Entry = "A reload has no effect"
	WrongDatabase Entry = "A command finds no gateway, or another database"
	Clock         Entry = "The clock is wrong"
	Slow          Entry = "It is slow, or uses much memory"
	Logins        Entry = "Logins to the dashboard fail, or the API answers 429"
	Failover      Entry = "The database fails over, or a node of it is lost"
)

// Page returns the entry's place in the docs, such as "runbook.md#it-does-not-start".
func (e Entry) Page() string {
	return "runbook.md#" + strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, string(e))
}

// Title returns the title without marks.
func (e Entry) Title() string { return strings.ReplaceAll(string(e), "`", "") }
