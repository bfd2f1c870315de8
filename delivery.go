package hookonce

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/provider"
)

// delivery is a request whose signature was checked. Only source.verify makes
// one, and only a delivery can be claimed.
type delivery struct {
	source   *source
	header   http.Header
	rawQuery string
	wire     []byte // the body as it was sent and signed
	body     []byte // the same, inflated
}

func (d *delivery) input() *locate.Input {
	return &locate.Input{Header: d.header, Body: d.body, RawQuery: d.rawQuery}
}

func (s *source) acceptsEncoding(values []string) bool {
	return len(values) == 1 && (strings.EqualFold(values[0], "identity") || slices.Contains(s.ContentEncodings, strings.ToLower(values[0])))
}

// maxInflateRatio is how many times larger than its compressed form a body may
// be: more is a bomb, not an event.
const maxInflateRatio = 100

var errInflateTooLarge = errors.New("the body is too large once inflated")

// inflate undoes the content encoding. It runs after the signature was checked.
func (d *delivery) inflate() error {
	if !strings.EqualFold(d.header.Get("Content-Encoding"), "gzip") {
		return nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(d.wire))
	if err != nil {
		return fmt.Errorf("the body is not gzip: %w", err)
	}
	limit := min(d.source.MaxBody, int64(len(d.wire))*maxInflateRatio)
	body, err := io.ReadAll(io.LimitReader(zr, limit+1))
	if err != nil {
		return fmt.Errorf("the body is not gzip: %w", err)
	}
	if int64(len(body)) > limit {
		return errInflateTooLarge
	}
	d.body = body
	return nil
}

// refuseInflated answers for a body that could not be inflated: a bomb is too
// large; anything else is authentic and malformed.
func (in *Inbox) refuseInflated(src *source, d *delivery, err error, deadline time.Time) *answer {
	if errors.Is(err, errInflateTooLarge) {
		return tooLarge(src)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if err := in.quarantine(ctx, d, []provider.Malformed{{Reason: err.Error(), Body: d.wire}}); err != nil {
		return in.unavailable(src, "the quarantine could not be written", err)
	}
	return in.answerMalformed(src)
}

func (in *Inbox) answerMalformed(src *source) *answer {
	if src.Malformed == MalformedQuarantine {
		return accepted(struct {
			Status string `json:"status"`
		}{"quarantined"})
	}
	a, _ := refused(http.StatusBadRequest, "The request is authentic, but no single event id could be read from it. It was kept for the operator.")
	return a
}

// quarantine keeps authentic but unusable parts of d.
func (in *Inbox) quarantine(ctx context.Context, d *delivery, malformed []provider.Malformed) error {
	requests := make([]driver.Quarantined, 0, len(malformed))
	for _, m := range malformed {
		requests = append(requests, driver.Quarantined{
			Source:   d.source.Name,
			BodyHash: sha256.Sum256(m.Body),
			Headers:  storedHeader(d.header, d.source.hidden),
			Body:     m.Body,
			Reason:   m.Reason,
		})
		in.log.Warn("quarantined: verified, but without one clear event",
			slog.String("source", d.source.Name), slog.String("reason", m.Reason))
	}
	return in.store.Quarantine(ctx, &driver.QuarantineParams{Requests: requests})
}

// claimFor makes the claim of one event of d.
func (in *Inbox) claimFor(d *delivery, ev *provider.Event) driver.Claim {
	src := d.source
	header, body := d.header, d.wire
	if src.batch {
		// An item is cut from the inflated body.
		body = ev.Body
		if header.Get("Content-Encoding") != "" {
			header = header.Clone()
			header.Del("Content-Encoding")
		}
	}
	key := driver.EventKey(src.Name, ev.IDParts...)
	claim := driver.Claim{
		Key:        key,
		Source:     src.Name,
		EventID:    ev.ID,
		Type:       ev.Type,
		OccurredAt: ev.Time,
		Headers:    storedHeader(header, src.hidden),
		Body:       body,
		BodyHash:   sha256.Sum256(body),
		BodyGuard:  src.guard,
	}
	if src.Consume == ConsumeSQL {
		claim.Work = driver.WorkQueued
	}
	if len(src.routes) > 0 {
		claim.Messages = in.owed(src, key, &Event{
			Source: src.Name, ID: ev.ID, Type: ev.Type, OccurredAt: ev.Time, Header: header, Body: ev.Body,
		})
	}
	return claim
}

// storedHeader encodes h as a JSON object of name to values, with "<secret>"
// in place of shared credentials. Bytes that are not UTF-8 are taken for
// ISO 8859-1, which is what HTTP once said they were.
func storedHeader(h http.Header, hidden []string) []byte {
	out := make(http.Header, len(h))
	for name, values := range h {
		if slices.ContainsFunc(hidden, func(s string) bool { return strings.EqualFold(s, name) }) {
			out[name] = []string{"<secret>"}
			continue
		}
		if i := slices.IndexFunc(values, func(v string) bool { return !utf8.ValidString(v) }); i >= 0 {
			values = slices.Clone(values)
			for j, v := range values {
				if !utf8.ValidString(v) {
					values[j] = latin1(v)
				}
			}
		}
		out[name] = values
	}
	return bytes.TrimSuffix(mustJSON(out), []byte("\n"))
}

func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// parseHeader reads what storedHeader wrote.
func parseHeader(stored []byte) (http.Header, error) {
	if len(stored) == 0 {
		return http.Header{}, nil
	}
	var h http.Header
	if err := json.Unmarshal(stored, &h); err != nil {
		return nil, fmt.Errorf("stored headers: %w", err)
	}
	return h, nil
}
