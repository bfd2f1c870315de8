package eventually_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// failed stands for a test that may fail.
type failed struct {
	testing.TB
	text string
}

func (f *failed) Helper() {}

func (f *failed) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestWaits(t *testing.T) {
	t.Parallel()
	const takes = eventually.Bound - time.Second
	tests := map[string]struct {
		wait  func(t testing.TB, began time.Time, takes time.Duration)
		wrong string // what a wait that takes too long says besides its name
	}{
		"True": {func(t testing.TB, began time.Time, takes time.Duration) {
			eventually.True(t, "it rains", func() bool { return time.Since(began) >= takes })
		}, ""},
		"Succeeds": {func(t testing.TB, began time.Time, takes time.Duration) {
			eventually.Succeeds(t, "it rains", func() error {
				if time.Since(began) < takes {
					return errors.New("sun")
				}
				return nil
			})
		}, ": sun"},
		"Receive": {func(t testing.TB, _ time.Time, takes time.Duration) {
			rain := make(chan int, 1)
			time.AfterFunc(takes, func() { rain <- 7 })
			if got := eventually.Receive(t, "it rains", rain); got != 7 {
				t.Errorf("received %d, want 7", got)
			}
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				tt.wait(t, began, takes)
				if took := time.Since(began); took < takes || took > takes+time.Second {
					t.Errorf("the wait took %s, want %s", took, takes)
				}
				f := &failed{TB: t}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					tt.wait(f, time.Now(), time.Hour)
				}()
				<-ended
				if want := "not within 2m0s: it rains" + tt.wrong; f.text != want {
					t.Errorf("the test failed with %q, want %q", f.text, want)
				}
				time.Sleep(time.Hour) // lets the last timer end
			})
		})
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		<-eventually.Context(t).Done()
		if took := time.Since(began); took != eventually.Bound {
			t.Errorf("the context ended after %s, want %s", took, eventually.Bound)
		}
	})
}
