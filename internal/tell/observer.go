package tell

import (
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/internal/guard"
)

// call calls f, unless it is nil. Many callers hold something that a panic or an end of the goroutine
// would leave behind. So f has its own goroutine, unless Observer.Direct says that it never ends it.
func call[T any](t *Teller, f func(T), what T) {
	if f == nil {
		return
	}
	var err error
	if t.observer.Direct {
		err = callDirectly(f, what)
	} else {
		err = <-guard.Call("the Observer", func() error {
			f(what)
			return nil
		})
	}
	if err != nil && t.failures.Take(time.Now()) == 0 {
		t.log.Error("an Observer failed", slog.Any("error", guard.Loggable(err)))
	}
}

// callDirectly calls f, and returns a panic as an error.
func callDirectly[T any](f func(T), what T) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = guard.Recovered(v)
		}
	}()
	f(what)
	return nil
}
