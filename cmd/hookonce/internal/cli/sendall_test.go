package cli

import (
	"net/http"
	"testing"
	"time"
)

// A proxy that the environment names would be another host than the target. (A test cannot show
// that with requests: Go never uses a proxy for loopback addresses.)
func TestSendUsesNoProxy(t *testing.T) {
	t.Parallel()
	transport, ok := newSendClient(time.Second, 1, nil).Transport.(*http.Transport)
	if !ok || transport.Proxy != nil {
		t.Errorf("the client's transport is %T, with a proxy", newSendClient(time.Second, 1, nil).Transport)
	}
}
