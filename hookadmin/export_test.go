package hookadmin

import (
	"strings"
	"time"
)

// Endpoint is the part of an endpoint that tests need.
type Endpoint struct {
	Method, Path string
	Query        []string
}

// Endpoints returns the endpoints of the API.
func Endpoints() []Endpoint { return served(false) }

// Pages returns the endpoints of the dashboard.
func Pages() []Endpoint { return served(true) }

func served(dashboard bool) []Endpoint {
	var all []Endpoint
	for _, e := range endpoints {
		if dashboard == (e.page || strings.HasPrefix(e.path, "/static/")) {
			all = append(all, Endpoint{e.method, e.path, e.query})
		}
	}
	return all
}

// The functions that word numbers, durations and texts on pages.
var (
	InWords      = inWords
	RetryInWords = retryInWords
	Visible      = visible
)

// Relative words the time between at and now.
func Relative(at, now time.Time) string { return relative(at, now) }

// FaultWords returns the words of faults in answers.
func FaultWords() []string {
	words := []string{"unreadable"} // see reasonOf
	for _, r := range reasons {
		words = append(words, r.word)
	}
	return words
}
