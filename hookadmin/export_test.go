package hookadmin

import (
	"strings"
	"time"
)

// Endpoint is what the tests know of one.
type Endpoint struct {
	Method, Path string
	Query        []string
}

// Endpoints returns what is served of the API.
func Endpoints() []Endpoint { return served(false) }

// Pages returns what is served of the dashboard.
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

// What a POST carries, by the name of its schema.
type (
	ReplayRequest      = replayRequest
	DeadLettersRequest = deadLettersRequest
)

// The words of pages.
var (
	InWords = inWords
	Grouped = grouped
)

// Relative returns how long ago at is at now.
func Relative(at, now time.Time) string { return moment{at, now}.Relative() }
