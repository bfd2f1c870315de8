package hookadmin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
)

// quarantinedRequest is the thing of the endpoints of one quarantined request.
const quarantinedRequest = "quarantined request"

func (h *handling) listQuarantine(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	filter, err := ParseQuarantineFilter(values, time.Time{})
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	page, err := h.store.Quarantined(ctx, filter)
	if err != nil {
		h.failStore(w, r, fmt.Errorf("listing the quarantine: %w", err))
		return
	}
	shape, err := NewQuarantinePage(page)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	writeJSON(w, shape)
}

// quarantined returns the request that the path names, or answers with an error and returns false.
func (h *handling) quarantined(w http.ResponseWriter, r *http.Request) (*driver.QuarantinedRequest, bool) {
	key, err := ParseQuarantineID(r.PathValue("id"))
	if err != nil {
		h.failStore(w, r, err)
		return nil, false
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	q, err := h.store.QuarantinedRequest(ctx, key)
	if err != nil {
		h.failStore(w, r, fmt.Errorf("reading a quarantined request: %w", err))
		return nil, false
	}
	return q, true
}

func (h *handling) showQuarantined(w http.ResponseWriter, r *http.Request) {
	q, ok := h.quarantined(w, r)
	if !ok {
		return
	}
	shape, err := NewQuarantinedRequest(q)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	writeJSON(w, shape)
}

func (h *handling) retryQuarantined(w http.ResponseWriter, r *http.Request) {
	if !h.read(w, r, &struct{}{}) {
		return
	}
	id := r.PathValue("id")
	key, err := ParseQuarantineID(id)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	retried, err := h.engine.Operator().RetryQuarantined(ctx, key)
	still, unreadable := errors.AsType[*operate.UnreadableError](err)
	switch {
	case err == nil:
		writeJSON(w, NewQuarantineRetried(id, retried))
	case unreadable:
		h.because(err).fail(w, r, http.StatusUnprocessableEntity, "The request stays in the quarantine: "+still.Reason+".", nil)
	default:
		h.failKnown(w, r, ofQuarantine, "Repeating it is safe.", err)
	}
}

// Pages of the quarantine hold bodies, so they are shorter than others.
const (
	defaultQuarantineLimit = 10
	maxQuarantineLimit     = 20
)

// ParseQuarantineFilter reads the parameters of GET /api/v1/quarantine, as ParseFilter does.
func ParseQuarantineFilter(values url.Values, _ time.Time) (*driver.QuarantineFilter, error) {
	if err := checkParameters(values, quarantineParameters); err != nil {
		return nil, err
	}
	limit, err := parseLimit(values.Get("limit"), defaultQuarantineLimit, maxQuarantineLimit)
	if err != nil {
		return nil, err
	}
	after, err := driver.ParseCursor(values.Get("cursor"))
	if err != nil {
		return nil, &ParameterError{"cursor", err.Error()}
	}
	return &driver.QuarantineFilter{Source: values.Get("source"), Limit: limit, After: after}, nil
}

// ParseQuarantineID reads the id of a quarantined request, as the API shows it. The error matches
// driver.ErrNotFound.
func ParseQuarantineID(id string) (driver.Key, error) {
	var key driver.Key
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != len(key) || hex.EncodeToString(raw) != id {
		return key, fmt.Errorf("%w: an id has %d digits of 0-9 and a-f", driver.ErrNotFound, hex.EncodedLen(len(key)))
	}
	return driver.Key(raw), nil
}
