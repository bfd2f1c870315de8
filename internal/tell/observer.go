package tell

import (
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/work"
)

// Observer holds the functions of a hookonce.Observer, which any may be nil.
type Observer struct {
	Direct   bool // the functions never end their goroutine
	Delivery func(*Delivery)
	Claim    func(Batch)
	Handler  func(*work.Observed)
	Message  func(*relay.Observed)
	Operated func(Operated)
	Pruned   func(*driver.PruneResult)
	Barred   func(destination string)
}

// Batch is a batch of claims in one statement.
type Batch struct {
	Size int
	Took time.Duration
	Err  error
}

// Operated counts the things of a source that an operator changed.
type Operated struct {
	Action, Source string
	Count          int
}

// call calls f, unless it is nil. Many callers hold something that a panic or an end of the goroutine
// would leave behind. So f has its own goroutine, unless Observer.Direct says that it never ends it.
func call[T any](t *Teller, f func(T), what T) {
	if f == nil {
		return
	}
	var err error
	if t.o.Observer.Direct {
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
