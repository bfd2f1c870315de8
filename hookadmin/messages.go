package hookadmin

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/hookonce/hookonce/driver"
)

func (h *handler) listMessages(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, h.ofSources(ParseMessageFilter), h.store.Messages, NewMessagePage)
}

func (h *handler) retryMessage(w http.ResponseWriter, r *http.Request) {
	if !h.read(w, r, &struct{}{}) {
		return
	}
	id := r.PathValue("id")
	ctx, cancel := changing(r)
	defer cancel()
	if err := h.engine.Operator().RetryMessage(ctx, id); err != nil {
		if refused := retryRefusal(err); refused != nil {
			h.because(err).refuse(w, r, refused)
			return
		}
		h.failChange(w, r, "Repeating it is safe.", fmt.Errorf("retrying a message: %w", err))
		return
	}
	writeJSON(w, &Retried{ID: id, Retried: true})
}

// retryRefusal returns the answer for a message that cannot be retried, or nil.
func retryRefusal(err error) *refusal {
	switch {
	case errors.Is(err, driver.ErrOpen):
		return &refusal{http.StatusConflict, "The message is being sent."}
	case errors.Is(err, driver.ErrSent):
		return &refusal{http.StatusConflict, "The message was sent. To send it again, replay its event."}
	case errors.Is(err, driver.ErrBodyPruned):
		return &refusal{http.StatusGone, bodyPruned}
	}
	return nil
}
