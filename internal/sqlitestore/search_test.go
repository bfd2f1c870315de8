package sqlitestore

import (
	"errors"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// TestSearchesAtOnce refuses a third search for a text, and nothing else.
func TestSearchesAtOnce(t *testing.T) {
	t.Parallel()
	s := storeWith(t, &faults{})
	for range driver.TextSearches {
		release, err := s.search("test", true)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	list := func(f *driver.EventFilter) error { _, err := s.Events(t.Context(), f); return err }
	for _, f := range []*driver.EventFilter{{Text: "x"}, {TraceID: "x"}} {
		if err := list(f); !errors.Is(err, driver.ErrSearching) {
			t.Errorf("Events(%+v): %v, want %v", f, err, driver.ErrSearching)
		}
	}
	if _, err := s.Messages(t.Context(), &driver.MessageFilter{Text: "x"}); !errors.Is(err, driver.ErrSearching) {
		t.Errorf("Messages: %v", err)
	}
	if _, err := s.DeadLetters(t.Context(), &driver.MessageFilter{Text: "x"}); !errors.Is(err, driver.ErrSearching) {
		t.Errorf("DeadLetters: %v", err)
	}
	if err := list(&driver.EventFilter{Source: "s"}); err != nil {
		t.Error(err)
	}
	<-s.searching
	if err := list(&driver.EventFilter{Text: "x"}); err != nil {
		t.Error(err)
	}
	if err := list(&driver.EventFilter{Text: "x"}); err != nil {
		t.Errorf("a search did not end: %v", err)
	}
	s.searching <- struct{}{} // for the release above
}
