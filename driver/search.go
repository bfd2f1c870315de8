package driver

import "time"

// Bounds of listings. A listing with filters reads only so many rows for one page. If it reads that
// many before the page is full, the page has SearchedUntil, and Next continues there, also after a
// page without rows.
const (
	// ScanRows is how many events a page looks at for filters on their own columns.
	ScanRows = 30_000
	// MessageRows is how many events, messages or dead letters a page of messages or of dead letters
	// looks at: each is looked up by itself.
	MessageRows = 3_000
	// StateRows is how many events a page looks at for filters on the state or the note, which are
	// derived from several rows.
	StateRows = 2_000
	// TextRows and TextTime bound the search for EventFilter.Text, MessageFilter.Text or
	// EventFilter.TraceID in one page. A store stops at the bound that it meets first.
	TextRows = 100_000
	TextTime = 2 * time.Second
	// TextSearches is how many searches for a text a store runs at once, on connections that no
	// other call uses. Further ones fail with ErrSearching.
	TextSearches = 2
	// MaxLookups is how many events a listing looks up by an id. An id that could stand for more of
	// them, in all sources together, is searched for like a type.
	MaxLookups = 10_000
	// CountLimit is where the numbers of Stats stop.
	CountLimit = 10_000
)
