package guard

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	failure := errors.New("no stock")
	for name, tt := range map[string]struct {
		err       error
		permanent bool
		after     time.Duration
		told      bool
	}{
		"nil":            {nil, false, 0, false},
		"plain":          {failure, false, 0, false},
		"permanent":      {Permanent(failure), true, 0, false},
		"wrapped":        {fmt.Errorf("order 7: %w", Permanent(failure)), true, 0, false},
		"joined":         {errors.Join(errors.New("first"), Permanent(failure)), true, 0, false},
		"later":          {RetryAfter(time.Hour, failure), false, time.Hour, true},
		"later, wrapped": {fmt.Errorf("order 7: %w", RetryAfter(time.Hour, failure)), false, time.Hour, true},
		"at once":        {RetryAfter(0, failure), false, 0, true},
		"in the past":    {RetryAfter(-time.Hour, failure), false, 0, true},
		"in a century":   {RetryAfter(100*MaxRetryAfter, failure), false, MaxRetryAfter, true},
		"both":           {Permanent(RetryAfter(time.Hour, failure)), true, time.Hour, true},
	} {
		if got := IsPermanent(tt.err); got != tt.permanent {
			t.Errorf("%s: permanent %t, want %t", name, got, tt.permanent)
		}
		if after, told := RetryDelay(tt.err); after != tt.after || told != tt.told {
			t.Errorf("%s: retry after %s, %t; want %s, %t", name, after, told, tt.after, tt.told)
		}
		if tt.err != nil && !errors.Is(tt.err, failure) {
			t.Errorf("%s: the error does not wrap its cause", name)
		}
	}
	if err := errors.Join(Permanent(nil), RetryAfter(time.Hour, nil)); err != nil {
		t.Errorf("marking nil: error %v, want none", err)
	}
	for _, err := range []error{Permanent(failure), RetryAfter(time.Hour, failure)} {
		if err.Error() != failure.Error() {
			t.Errorf("error %q, want the text of its cause", err)
		}
	}
}
