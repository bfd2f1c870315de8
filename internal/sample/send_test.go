package sample

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// A proxy that the environment names would be another host than the target. (A test cannot show
// that with requests: Go never uses a proxy for loopback addresses.)
func TestClientUsesNoProxy(t *testing.T) {
	t.Parallel()
	transport, ok := NewClient(time.Second, 1, nil).Transport.(*http.Transport)
	if !ok || transport.Proxy != nil {
		t.Errorf("the client's transport is %T, with a proxy", NewClient(time.Second, 1, nil).Transport)
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	failed, ended := errors.New("failed"), errors.New("ended")
	for name, tt := range map[string]struct {
		at   int64 // the call that ends it
		err  error
		want error
	}{"until there is no more": {at: 9}, "until the first error": {at: 5, err: failed, want: failed}} {
		var calls atomic.Int64
		err := Repeat(t.Context(), 3, func(context.Context) (bool, error) {
			if n := calls.Add(1); n >= tt.at {
				return false, tt.err
			}
			return true, nil
		})
		if n := calls.Load(); !errors.Is(err, tt.want) || n < tt.at || n > tt.at+2 {
			t.Errorf("%s: %d calls, %v", name, n, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Repeat(ctx, 3, func(context.Context) (bool, error) { cancel(ended); return true, nil })
	if !errors.Is(err, ended) {
		t.Errorf("after the end of the context: %v", err)
	}
}
