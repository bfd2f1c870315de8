package hookonce

import (
	"errors"
	"fmt"
)

// panicked is what guarded makes of a panic. Its text is what was panicked with; the
// stack is for the log.
type panicked struct {
	who   string
	value any
	stack error
}

func (p *panicked) Error() string { return fmt.Sprintf("%s panicked: %v", p.who, p.value) }

// guarded calls a function of the user's in a goroutine of its own, so that one
// which never returns keeps nobody, and sends its error. A panic is one too, and so
// is the end of the goroutine, as by FailNow of a test. who says what f is.
func guarded(who string, f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%s ended its goroutine by runtime.Goexit: return an error instead", who)
		defer func() {
			if v := recover(); v != nil {
				err = &panicked{who, v, panicError(v)}
			}
			done <- err
		}()
		err = f()
	}()
	return done
}

// loggable returns err as the log shows it: a panic with its stack.
func loggable(err error) error {
	var p *panicked
	if errors.As(err, &p) {
		return p.stack
	}
	return err
}
