package hookadmin

import (
	"fmt"
	"net/http"
)

func (h *handling) listMessages(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, h.ofSources(ParseMessageFilter), h.store.Messages, NewMessagePage)
}

func (h *handling) retryMessage(w http.ResponseWriter, r *http.Request) {
	if !h.read(w, r, &struct{}{}) {
		return
	}
	id := r.PathValue("id")
	ctx, cancel := changing(r)
	defer cancel()
	if err := h.engine.Operator().RetryMessage(ctx, id); err != nil {
		h.failKnown(w, r, ofRetry, "Repeating it is safe.", fmt.Errorf("retrying a message: %w", err))
		return
	}
	writeJSON(w, &Retried{ID: id, Retried: true})
}
