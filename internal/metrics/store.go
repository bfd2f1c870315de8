package metrics

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// wordEnd is the place between two words of a Go name.
var wordEnd = regexp.MustCompile("([a-z])([A-Z])")

// operations returns the values of the label op: the methods of driver.Store that ask the database,
// in snake case.
func operations() (ops []string) {
	for method := range reflect.TypeFor[driver.Store]().Methods() {
		if method.Type.NumIn() > 0 && method.Type.In(0) == reflect.TypeFor[context.Context]() {
			ops = append(ops, strings.ToLower(wordEnd.ReplaceAllString(method.Name, "${1}_$2")))
		}
	}
	return ops
}

// errorClasses are the values of the label class, each with the error that it stands for. An error is
// of the first class that it matches.
var errorClasses = []struct {
	name string
	err  error
}{
	{"commit_unknown", driver.ErrCommitUnknown},
	{"timed_out", driver.ErrTimedOut},
	{"unavailable", driver.ErrUnavailable},
	{"lock_timeout", driver.ErrLockTimeout},
	{"serialization", driver.ErrSerialization},
	{"bad_row", driver.ErrBadRow},
	{"not_stored", driver.ErrNotStored},
	{"schema", driver.ErrSchema},
	{"canceled", context.Canceled},
	{"canceled", context.DeadlineExceeded},
	{"other", nil},
}

// answers are errors that tell a caller about an event or a message. The database worked.
var answers = []error{
	driver.ErrNotFound, driver.ErrOpen, driver.ErrSent, driver.ErrModeNeeded, driver.ErrNoteNeeded, driver.ErrRequestReused,
	driver.ErrBodyPruned, driver.ErrNoRoute, driver.ErrUndecided, driver.ErrTooManySecrets,
}

// classOf returns the class of an error, "" for an answer.
func classOf(err error) string {
	for _, answer := range answers {
		if errors.Is(err, answer) {
			return ""
		}
	}
	for _, class := range errorClasses {
		if class.err == nil || errors.Is(err, class.err) {
			return class.name
		}
	}
	return ""
}

// Store returns a store that measures each call of s.
func (m *Metrics) Store(s driver.Store) driver.Store { return &store{s, m} }

type store struct {
	driver.Store
	metrics *Metrics
}

func (s *store) observe(op string, began time.Time, err *error) {
	s.metrics.store.WithLabelValues(op).Observe(time.Since(began).Seconds())
	if *err != nil {
		if class := classOf(*err); class != "" {
			s.metrics.storeErrors.WithLabelValues(op, class).Inc()
		}
	}
}

// ask measures a call that returns a result.
func ask[P, R any](ctx context.Context, s *store, op string, call func(context.Context, P) (R, error), p P) (r R, err error) {
	defer s.observe(op, time.Now(), &err)
	return call(ctx, p)
}

// do measures a call that returns only an error.
func do[P any](ctx context.Context, s *store, op string, call func(context.Context, P) error, p P) (err error) {
	defer s.observe(op, time.Now(), &err)
	return call(ctx, p)
}
