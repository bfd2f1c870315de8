// Package guard calls user code safely: a handler, a Sender or a Refetch may panic, end its
// goroutine or never return, and still costs only its own attempt. It also marks errors as
// permanent, or with the delay of the next attempt.
package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// panicked is the error for a recovered panic. Its text is the panic's value; the stack is for the
// log only.
type panicked struct {
	who   string
	value any
	stack error
}

func (p *panicked) Error() string { return fmt.Sprintf("%s panicked: %v", p.who, p.value) }

// Call runs f in its own goroutine and sends its error on the returned channel, which has room for
// it: a caller may stop waiting. A panic, and an end of the goroutine as by FailNow of a test, are
// sent as errors. who names f in these errors.
func Call(who string, f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		var err error
		returned := false
		defer func() {
			if v := recover(); v != nil {
				err = &panicked{who, v, Recovered(v)}
			} else if !returned {
				err = fmt.Errorf("%s ended its goroutine by runtime.Goexit: return an error instead", who)
			}
			done <- err
		}()
		err = f()
		returned = true
	}()
	return done
}

// Recovered returns a recovered value as an error with the stack of the panic. Call it in the
// deferred function that recovers.
func Recovered(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

// Loggable returns err as the log shows it: a panic with its stack.
func Loggable(err error) error {
	var p *panicked
	if errors.As(err, &p) {
		return p.stack
	}
	return err
}
