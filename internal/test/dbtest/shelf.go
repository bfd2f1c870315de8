package dbtest

import (
	"errors"
	"sync"
	"testing"
)

// Shelf hands pools or stores on ready schemas from test to test. Without it, most of a small test's time goes to new
// sessions, which plan each statement again. A shelf is a variable of a test package; parallel tests may use it.
type Shelf[W any] struct {
	// Open opens something on a schema.
	Open func(t testing.TB, dsn, schema string) W
	// Usable reports whether the next test may have it: no session is broken or in use.
	Usable func(W) bool
	Close  func(W) error

	mu     sync.Mutex
	known  bool // to Run
	unused []shelved[W]
}

type shelved[W any] struct {
	open   W
	schema string
}

// Take returns something open on a schema that is as new. It goes back when the test ends, unless the test has failed,
// has changed a definition in the schema, or has made it unusable.
func (s *Shelf[W]) Take(t testing.TB) W {
	t.Helper()
	dsn := server(t)
	it, ok := s.pop()
	if !ok {
		schema, err := ready.take()
		if err != nil {
			t.Fatalf("dbtest: preparing a schema: %v", err)
		}
		it = shelved[W]{s.Open(t, dsn, schema), schema}
	}
	t.Cleanup(func() {
		if err := s.putBack(it, !t.Failed()); err != nil {
			t.Errorf("dbtest: emptying the test's schema: %v", err)
		}
	})
	return it.open
}

func (s *Shelf[W]) pop() (it shelved[W], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		shelves.Lock()
		shelves.clear = append(shelves.clear, s.clear)
		shelves.Unlock()
		s.known = true
	}
	if n := len(s.unused); n > 0 {
		it, s.unused = s.unused[n-1], s.unused[:n-1]
		return it, true
	}
	return it, false
}

func (s *Shelf[W]) putBack(it shelved[W], usable bool) error {
	if !usable || !s.Usable(it.open) {
		return s.end(it)
	}
	droppedFor, err := ready.clean(it.schema)
	if err != nil || droppedFor != "" {
		return errors.Join(err, s.Close(it.open))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unused = append(s.unused, it)
	return nil
}

// end closes something, and gives its schema back.
func (s *Shelf[W]) end(it shelved[W]) error {
	return errors.Join(s.Close(it.open), ready.giveBack(it.schema))
}

// clear closes everything. No test runs any more.
func (s *Shelf[W]) clear() (err error) {
	for _, it := range s.unused {
		err = errors.Join(err, s.end(it))
	}
	return err
}

// shelves are those of this test binary. Run clears them after the tests.
var shelves struct {
	sync.Mutex
	clear []func() error
}
