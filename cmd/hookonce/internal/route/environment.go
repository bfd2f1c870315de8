package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce"
)

// environment holds the names of an expression. Body gives the type of `body` for the type check.
// The compiled program calls Parsed instead, so that a body is parsed only if the evaluation needs
// it.
type environment struct {
	Event  event      `expr:"event"`
	Body   any        `expr:"body"`
	Parsed func() any `expr:"(body)"`
	Budget *budget    `expr:"(budget)"`
}

type event struct {
	Source     string           `expr:"source"`
	ID         string           `expr:"id"`
	Type       string           `expr:"type"`
	OccurredAt any              `expr:"occurred_at"` // time.Time or nil
	Header     func(string) any `expr:"header"`      // string or nil
}

// eventFields are the names after `event.`.
var eventFields = []string{"source", "id", "type", "occurred_at", "header"}

func newEnvironment(ev *hookonce.Event) environment {
	env := environment{Budget: &budget{maxSteps}, Event: event{
		Source: ev.Source,
		ID:     ev.ID,
		Type:   ev.Type,
		Header: func(name string) any {
			if values := ev.Header.Values(name); len(values) > 0 {
				return values[0]
			}
			return nil
		},
	}}
	if !ev.OccurredAt.IsZero() {
		env.Event.OccurredAt = ev.OccurredAt
	}
	var parsed bool
	var body any
	env.Parsed = func() any {
		if !parsed {
			parsed = true
			if document, err := ev.Document(); err == nil {
				body = parseBody(document)
			}
		}
		return body
	}
	return env
}

// parseBody returns the single JSON value in body, or nil.
func parseBody(body []byte) any {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil
	}
	return convert(v)
}

// convert replaces the numbers in v. encoding/json bounds the depth.
func convert(v any) any {
	switch v := v.(type) {
	case json.Number:
		return convertNumber(string(v))
	case []any:
		for i := range v {
			v[i] = convert(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = convert(v[k])
		}
	}
	return v
}

// maxDigits bounds the exact whole numbers: arithmetic on the digits of a hostile body must stay
// cheap.
const maxDigits = 40

// wholeNumber holds the digits of a whole number that does not fit an int.
type wholeNumber string

// convertNumber returns an int, a wholeNumber or a float64.
func convertNumber(text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if len(text) <= maxDigits && !strings.ContainsAny(text, ".eE") {
		return wholeNumber(text)
	}
	// A number out of range becomes an infinity, which compares correctly.
	f, _ := strconv.ParseFloat(text, 64)
	return f
}
