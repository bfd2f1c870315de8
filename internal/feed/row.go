// Package feed is the live view of deliveries, attempts and events: a Collector in each process
// writes its observations to the store while somebody looks, and a Hub reads the rows of all
// processes once for all clients of its process.
package feed

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
)

// Row is one row of the feed.
type Row struct {
	At      time.Time
	Kind    driver.FeedKind
	Source  string
	EventID string
	Type    string
	Outcome string
	Details
}

// Details are the rest of a row. Zero fields are left out.
type Details struct {
	Destination string  `json:"destination,omitempty"`
	MessageID   string  `json:"message_id,omitempty"`
	Attempt     int     `json:"attempt,omitempty"`      // from 1
	Status      int     `json:"status,omitempty"`       // of the answer: ours to a delivery, the destination's to an attempt
	TookSeconds float64 `json:"took_seconds,omitempty"` // to the answer, or of the attempt
	Reason      string  `json:"reason,omitempty"`       // of a refusal
	Remote      string  `json:"remote,omitempty"`       // the address of the client of a delivery
	ErrorID     string  `json:"error_id,omitempty"`     // in the answer to a delivery, and in the log
	Error       string  `json:"error,omitempty"`        // at most MaxError bytes
	Gateway     string  `json:"gateway,omitempty"`      // the name of the host
	Count       int     `json:"count,omitempty"`        // how many equal rows this one stands for, if more than 1
	Dropped     int     `json:"dropped,omitempty"`      // how many rows of this process are left out after this one
}

// MaxError is the longest error text of a row, in bytes.
const MaxError = 300

// store returns r in its stored form: texts are valid, and not too long.
func (r *Row) store() driver.FeedRow {
	d := r.Details
	d.Error = text(d.Error, MaxError)
	for _, s := range []*string{&d.Destination, &d.MessageID, &d.Reason, &d.Remote, &d.ErrorID, &d.Gateway} {
		*s = text(*s, driver.MaxFigureText)
	}
	raw := encode(&d)
	if len(raw) > driver.MaxFeedDetails {
		// JSON needs six bytes for a control character.
		raw = encode(&Details{Attempt: d.Attempt, Status: d.Status, TookSeconds: d.TookSeconds, Count: d.Count, Dropped: d.Dropped})
	}
	return driver.FeedRow{
		At: r.At, Kind: r.Kind, Source: text(r.Source, driver.MaxFeedText), EventID: text(r.EventID, driver.MaxFeedText),
		Type: text(r.Type, driver.MaxFeedText), Outcome: text(r.Outcome, driver.MaxFeedText), Details: raw,
	}
}

func encode(d *Details) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(d) // strings and finite numbers
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// text returns the beginning of s as valid UTF-8 without NUL, of at most n bytes.
func text(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// restore returns a stored row. Details that cannot be read were changed by hand, and are left out.
func restore(stored *driver.FeedRow) Row {
	r := Row{
		At: stored.At, Kind: stored.Kind, Source: stored.Source, EventID: stored.EventID, Type: stored.Type, Outcome: stored.Outcome,
	}
	if json.Unmarshal(stored.Details, &r.Details) != nil {
		r.Details = Details{}
	}
	return r
}
