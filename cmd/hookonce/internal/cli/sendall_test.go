package cli

import (
	"net/http"
	"testing"
)

// What is sent goes to its target alone: a proxy that the environment names would be
// another host. (Loopback, which tests use, is never sent through one.)
func TestSendUsesNoProxy(t *testing.T) {
	t.Parallel()
	transport, ok := newSendClient(&sendFlags{}).Transport.(*http.Transport)
	if !ok || transport.Proxy != nil {
		t.Errorf("the client's transport is %T, with a proxy", newSendClient(&sendFlags{}).Transport)
	}
}
