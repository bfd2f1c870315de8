package guard

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestCall(t *testing.T) {
	t.Parallel()
	failure := errors.New("no stock")
	for name, tt := range map[string]struct {
		f    func() error
		want string // the text of the error; "" for nil
		logs string // a part of the error in the log
	}{
		"nil":       {func() error { return nil }, "", ""},
		"error":     {func() error { return failure }, "no stock", "no stock"},
		"panic":     {func() error { panic("boom") }, "the handler panicked: boom", "guard_test.go"},
		"nil panic": {func() error { panic(nil) }, "the handler panicked: " + new(runtime.PanicNilError).Error(), "guard_test.go"}, //nolint:govet // the case under test
		"goexit": {func() error {
			runtime.Goexit()
			return nil
		}, "the handler ended its goroutine by runtime.Goexit: return an error instead", "Goexit"},
		"runtime error": {func() error {
			var m map[string]int
			m["x"] = 1 //nolint:govet,staticcheck // the case under test
			return nil
		}, "the handler panicked: assignment to entry in nil map", "guard_test.go"},
	} {
		err := <-Call("the handler", tt.f)
		if tt.want == "" {
			if err != nil || Loggable(err) != nil {
				t.Errorf("%s: error %v, in the log %v; want none", name, err, Loggable(err))
			}
			continue
		}
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
			continue
		}
		wrapped := fmt.Errorf("wrapped: %w", err)
		if got := Loggable(wrapped).Error(); !strings.Contains(got, tt.logs) {
			t.Errorf("%s: in the log %q, want %q in it", name, got, tt.logs)
		}
	}
	if err := <-Call("the handler", func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("error %v, want the one that was returned", err)
	}
}

// A caller that stops waiting does not keep the goroutine of f.
func TestCallWithoutAReceiver(t *testing.T) {
	t.Parallel()
	done := Call("the handler", func() error { return nil })
	for len(done) == 0 { // the goroutine has sent, although nothing received
		runtime.Gosched()
	}
}

func TestRecovered(t *testing.T) {
	t.Parallel()
	var err error
	func() {
		defer func() { err = Recovered(recover()) }()
		panic("boom")
	}()
	if text := err.Error(); !strings.HasPrefix(text, "panic: boom\n") || !strings.Contains(text, "TestRecovered") {
		t.Errorf("error %q, want the value and the stack of the panic", text)
	}
}
