package hookonce_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
)

const confirmURL = "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription"

// A subscription that cannot be confirmed at once is confirmed later: its provider was
// answered, and need not ask again.
func TestConfirmAgain(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	confirmed := make(chan struct{})
	sns := newSNS(t, func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		close(confirmed)
	})
	in := newEngine(t, openStore(t), nil)
	hookonce.SetFetcher(in, sns.fetcher)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	if !hookonce.Confirm(in, "sns", confirmURL) {
		t.Fatal("it was refused")
	}
	select {
	case <-confirmed:
	case <-time.After(time.Minute):
		t.Error("it was not tried again")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
