package hookadmin

import (
	"cmp"
	"html/template"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

// pieces are the functions of templates.
var pieces = template.FuncMap{
	"badge":       badgeOf,
	"moment":      momentOf,
	"after":       func(at, first Time) string { return "+" + say.Brief(time.Time(at).Sub(time.Time(first))) },
	"took":        say.BriefSeconds,
	"size":        sizeInWords,
	"visible":     visible,
	"short":       newText,
	"id":          newID,
	"row":         rowOf,
	"letter":      letterOf,
	"eventLink":   eventLink,
	"refusedBody": refusedBody,
	"named":       namedCell,
	"headers":     headerRows,
	"answer":      answerOf,
	"grouped":     say.Number[int64],
	"segments":    func(address string) []string { return strings.SplitAfter(address, "/") },
	"count":       counted,
	"firstEvent": func(command string) *empty {
		return &empty{Title: "No deliveries yet.", Text: "Send a first event to this gateway:", Command: command}
	},
	"noSources": func() *empty {
		return &empty{Title: "There are no sources in the settings.", Text: "This prints the settings of a first one:", Command: "hookonce providers stripe"}
	},
	"noDestinations": func() *empty {
		return &empty{
			Title: "There are no destinations in the settings.",
			Text:  "Events are stored all the same: for handlers, for SQL, or until a route sends them somewhere.",
		}
	},
}

// counted words a number that counting may have cut off.
func counted(n *int64) string {
	if *n >= driver.CountLimit {
		return say.Number(*n) + "+"
	}
	return say.Number(*n)
}

// badge is a state as pages show it: an icon, a word and a colour, so that none is needed
// alone.
type badge struct {
	Word string
	Icon string // a symbol of pieces.html, without "i-"
	Tone string // good, bad, warn, wait, busy or calm
}

// badges holds the states of events and messages, the outcomes of deliveries and attempts, and the
// health of sources and destinations.
var badges = map[string]badge{
	driver.StatePending: {"pending", "wait", "wait"},
	driver.StateRunning: {"running", "busy", "busy"},
	driver.StateSending: {"sending", "busy", "busy"},
	driver.StateDone:    {"done", "done", "good"},
	driver.StateSent:    {"sent", "done", "good"},
	driver.StateDead:    {"dead", "dead", "bad"},
	driver.StateSkipped: {"skipped", "skip", "calm"},

	"ok":          {"new", "done", "good"},
	"duplicate":   {"duplicate", "same", "calm"},
	"reopened":    {"reopened", "again", "wait"},
	"handshake":   {"handshake", "done", "calm"},
	"malformed":   {"malformed", "warn", "warn"},
	"refused":     {"refused", "stop", "warn"},
	"failed":      {"failed", "dead", "bad"},
	"unavailable": {"unavailable", "dead", "bad"},
	"retry":       {"retry", "again", "warn"},

	"waiting":           {"waiting", "wait", "wait"},
	"working":           {"working", "done", "good"},
	"silent":            {"silent", "wait", "calm"},
	"trouble":           {"trouble", "warn", "bad"},
	"watch":             {"look here", "warn", "warn"},
	"open":              {"circuit open", "stop", "bad"},
	"paused":            {"paused", "pause", "warn"},
	driver.JobPlanned:   {"planned", "wait", "wait"},
	driver.JobCancelled: {"cancelled", "stop", "warn"},

	"unknown": {"not known", "keys", "calm"},
}

// badgeOf returns the badge of a state. An unknown state is shown as it is.
func badgeOf(state string) badge {
	if b, ok := badges[state]; ok {
		return b
	}
	return badge{state, "keys", "calm"}
}

// ShownHealth is Health for people, in the word of the pages.
func (s *Source) ShownHealth() string { return badgeOf(cmp.Or(s.Health, "unknown")).Word }

// empty is shown instead of a table without rows.
type empty struct {
	Title   string
	Text    string
	Command string // a command to copy; "" for none
	Link    *link
}

// chip is a filter of a listing that is set.
type chip struct {
	Name, Value string
	Remove      string // link to the page without it
}

// spanLink is a link to a span of time.
type spanLink struct {
	link
	Current bool
}

// pager links the pages of a listing; each link may be "".
type pager struct {
	First string // the newest rows; "" on the first page
	Next  string // older rows; "" on the last page
}
