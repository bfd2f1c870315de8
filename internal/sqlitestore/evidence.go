package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

const (
	selectRecent = `SELECT recent FROM hookonce_delivery_count WHERE key = ?`

	updateRecent = `UPDATE hookonce_delivery_count SET recent = ? WHERE key = ?`

	insertOtherBody = `INSERT INTO hookonce_other_body (key, at, headers, body, body_size, body_sha256)
		SELECT key, ?2, ?3, ?4, ?5, ?6 FROM hookonce_event WHERE key = ?1 AND body IS NOT NULL
		ON CONFLICT (key) DO NOTHING`

	selectOtherBody = `SELECT at, headers, body, body_size, body_sha256 FROM hookonce_other_body WHERE key = ?`

	deleteOtherBody = `DELETE FROM hookonce_other_body WHERE key = ?`

	// The response of the first failed attempt stays, and that of an attempt after it goes once a
	// newer attempt has failed.
	deleteSuperseded = `DELETE FROM hookonce_attempt_response WHERE message_id = ? AND first = 0`

	insertResponse = `INSERT INTO hookonce_attempt_response (message_id, generation, number, first, content_type, response)
		SELECT ?1, ?2, ?3, NOT EXISTS (SELECT 1 FROM hookonce_attempt WHERE message_id = ?1 AND outcome <> 'sent'), ?4, ?5`

	deleteResponses = `DELETE FROM hookonce_attempt_response
		WHERE message_id IN (SELECT id FROM hookonce_message WHERE event = ?)`

	selectRedacted = `SELECT action FROM hookonce_history WHERE event_key = ?1 AND (action = ?2 OR request_id = ?3)`

	selectCaused = `SELECT ` + partColumns + ` FROM hookonce_message WHERE cause = ?1 ORDER BY id`

	// The messages of the event ?1, and those that it caused.
	evidence = `(SELECT id FROM hookonce_message WHERE event = (SELECT id FROM hookonce_event WHERE key = ?1) OR cause = ?1)`

	redactCaused = `UPDATE hookonce_event SET headers = NULL, body = NULL
		WHERE key IN (SELECT event_key FROM hookonce_message WHERE cause = ?1)`
	redactEvent     = `UPDATE hookonce_event SET headers = NULL, body = NULL WHERE key = ?1`
	redactResponses = `DELETE FROM hookonce_attempt_response WHERE message_id IN ` + evidence
	redactAttempts  = `UPDATE hookonce_attempt SET error = '` + driver.ErrorRedacted + `' WHERE error <> '' AND message_id IN ` + evidence
	redactMessages  = `UPDATE hookonce_message SET last_error = '` + driver.ErrorRedacted + `', signature = '` + driver.ErrorRedacted + `' WHERE last_error <> '' AND id IN ` + evidence
	redactTries     = `UPDATE hookonce_event_attempt SET error = '` + driver.ErrorRedacted + `' WHERE key = ?1`
	redactState     = `UPDATE hookonce_event_state SET last_error = '` + driver.ErrorRedacted + `', signature = '` + driver.ErrorRedacted + `' WHERE id = (SELECT id FROM hookonce_event WHERE key = ?1) AND last_error <> ''`
)

// secureDeleteOn is the value of PRAGMA secure_delete that overwrites freed pages too.
const secureDeleteOn = 1

// Values of driver.Redacted.Remains.
const (
	remainsInLog = "The log beside the SQLite file (-wal) may still hold the removed bytes, because another program reads the database: " +
		"redact the event again once that program has ended."
	remainsInPages = "Free pages of the SQLite file may still hold the removed bytes, because the program writes without PRAGMA secure_delete=ON: " +
		"set it on every connection that writes, then run VACUUM and PRAGMA wal_checkpoint(TRUNCATE)."
)

// storedDelivery is a delivery in the JSON of hookonce_delivery_count.recent.
type storedDelivery struct {
	At       int64  `json:"at"`
	Remote   string `json:"remote"`
	Gateway  string `json:"gateway"`
	SameBody bool   `json:"same_body"`
}

func encodeRecent(list []driver.Delivery) (string, error) {
	stored := make([]storedDelivery, len(list))
	for i, d := range list {
		stored[i] = storedDelivery{d.At.UnixMicro(), d.Remote, d.Gateway, d.SameBody}
	}
	text, err := json.Marshal(stored)
	return string(text), err
}

func decodeRecent(text string) ([]driver.Delivery, error) {
	if text == "" {
		return nil, nil
	}
	var stored []storedDelivery
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, fmt.Errorf("stored deliveries: %w", err)
	}
	list := make([]driver.Delivery, len(stored))
	for i, d := range stored {
		list[i] = driver.Delivery{At: fromMicros(d.At), Remote: d.Remote, Gateway: d.Gateway, SameBody: d.SameBody}
	}
	return list, nil
}

// keepEvidence keeps the newest deliveries of an event that has a count, and its first other body.
func (t *writeTx) keepEvidence(p *driver.CountDeliveriesParams, c *driver.DeliveryCount) error {
	ago := func(at time.Time) int64 { return t.now - p.Ago(at).Microseconds() }
	if len(c.Recent) > 0 {
		var text string
		if err := t.queryRow(selectRecent, c.Key[:]).Scan(&text); err != nil {
			return err
		}
		before, err := decodeRecent(text)
		if err != nil {
			return err
		}
		var list []driver.Delivery
		for _, d := range slices.Backward(c.Recent) {
			d.At = fromMicros(ago(d.At))
			list = append(list, d)
		}
		if text, err = encodeRecent(driver.MergeRecent(list, before)); err != nil {
			return err
		}
		if _, err := t.exec(updateRecent, text, c.Key[:]); err != nil {
			return err
		}
	}
	if o := c.Other; o != nil {
		if _, err := t.exec(insertOtherBody, c.Key[:], ago(o.At), blob(o.Headers), blob(o.Body), o.Size, o.SHA256[:]); err != nil {
			return err
		}
	}
	return nil
}

// keepResponse keeps the response to a failed attempt, and removes that of the attempt before it
// unless it was the first.
func (t *writeTx) keepResponse(c *driver.Completion, generation, number int) error {
	if generation > 0 || number > 1 {
		if _, err := t.exec(deleteSuperseded, c.ID); err != nil {
			return err
		}
	}
	if len(c.Response) == 0 {
		return nil
	}
	_, err := t.exec(insertResponse, c.ID, generation, number, c.ResponseType, c.Response)
	return err
}

func (r *detailReader) recent(ctx context.Context, d *driver.EventDetail) error {
	var text string
	if err := r.tx.QueryRowContext(ctx, selectRecent, d.Key[:]).Scan(&text); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	later, err := decodeRecent(text)
	d.Recent = driver.WithFirst(later, driver.Delivery{
		At: d.Deliveries.FirstAt, Remote: d.Deliveries.FirstRemote, Gateway: d.Deliveries.FirstGateway,
	})
	return err
}

func (r *detailReader) otherBody(ctx context.Context, d *driver.EventDetail) error {
	var o driver.OtherBody
	var at int64
	var hash []byte
	err := r.tx.QueryRowContext(ctx, selectOtherBody, d.Key[:]).Scan(&at, &o.Headers, &o.Body, &o.Size, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	o.At = fromMicros(at)
	copy(o.SHA256[:], hash)
	d.OtherBody = &o
	return err
}

// Redact implements driver.Evidence.
func (s *Store) Redact(ctx context.Context, p *driver.RedactParams) (*driver.Redacted, error) {
	const op = "redacting an event"
	if err := checkRequestID(p.RequestID); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	redacted := &driver.Redacted{}
	var overwrites bool
	err := s.writeEach(ctx, op, p.Now, 1, func(t *writeTx, _ int) (err error) {
		if overwrites, err = t.overwrites(); err != nil {
			return err
		}
		redacted.Repeated, err = t.redact(p)
		return err
	})
	if err != nil {
		return nil, err
	}
	// A repeated call empties the log too: the first one may have failed to.
	switch emptied := s.eraseLog(ctx); {
	case !overwrites:
		redacted.Remains = remainsInPages
	case !emptied:
		redacted.Remains = remainsInLog
	}
	return redacted, nil
}

// overwrites reports whether the connection overwrites all removed bytes. The pools may be the
// caller's, and so may the connection.
func (t *writeTx) overwrites() (bool, error) {
	var mode int
	err := t.tx.QueryRowContext(t.inner, `PRAGMA secure_delete`).Scan(&mode)
	return mode == secureDeleteOn, err
}

// redact reports whether the event was redacted before.
func (t *writeTx) redact(p *driver.RedactParams) (before bool, err error) {
	event := lifecycle.Event{Key: p.Key}
	if err := t.readReplayable(&event); err != nil {
		return false, err
	}
	if before, err = t.redactedBefore(p); err != nil || before {
		return before, err
	}
	caused, err := readMessageParts(t.query, selectCaused, p.Key, t.now)
	if err != nil {
		return false, err
	}
	event.Messages = append(event.Messages, caused...)
	generation, err := lifecycle.Redact(&event)
	if err != nil {
		return false, err
	}
	for _, query := range []string{
		redactCaused, redactEvent, deleteOtherBody, redactResponses, redactAttempts, redactMessages, redactTries, redactState,
	} {
		if _, err := t.exec(query, p.Key[:]); err != nil {
			return false, err
		}
	}
	return false, t.record(&historyEntry{key: p.Key, action: driver.ActionRedacted, generation: generation, requestID: p.RequestID})
}

func (t *writeTx) redactedBefore(p *driver.RedactParams) (bool, error) {
	rows, err := t.query(selectRedacted, p.Key[:], driver.ActionRedacted, nullText(p.RequestID)) //nolint:sqlclosecheck // collect closes them
	found, err := collect(rows, err, func(action *string) error { return rows.Scan(action) })
	if err != nil {
		return false, err
	}
	for _, action := range found {
		if action != driver.ActionRedacted {
			return false, driver.ErrRequestReused
		}
	}
	return len(found) > 0, nil
}
