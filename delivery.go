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
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
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
	method   string
	header   http.Header // as received
	visible  http.Header // the same without shared credentials: what is stored and shown
	rawQuery string
	wire     []byte    // the body as it was sent and signed
	body     []byte    // the same, inflated
	deadline time.Time // of the answer
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
func (d *delivery) inflate(budget *bodyBudget) error {
	if !isGzip(d.header) {
		return nil
	}
	body, err := gunzip(d.wire, d.source.MaxBody, budget)
	if err != nil {
		return err
	}
	d.body = body
	return nil
}

func isGzip(h http.Header) bool { return strings.EqualFold(h.Get("Content-Encoding"), "gzip") }

func gunzip(wire []byte, limit int64, budget *bodyBudget) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(wire))
	if err != nil {
		return nil, fmt.Errorf("the body is not gzip: %w", err)
	}
	limit = min(limit, int64(len(wire))*maxInflateRatio)
	body, err := readAll(io.LimitReader(zr, limit+1), -1, budget)
	switch {
	case errors.Is(err, errBodyBudget):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the body is not gzip: %w", err)
	case int64(len(body)) > limit:
		return nil, errInflateTooLarge
	}
	return body, nil
}

// inflateStored returns the body of an event as its source's rules read it: stored
// is what was received.
func inflateStored(h http.Header, stored []byte) ([]byte, error) {
	if !isGzip(h) {
		return stored, nil
	}
	return gunzip(stored, math.MaxInt64, &bodyBudget{used: new(atomic.Int64), limit: math.MaxInt64})
}

// refuseInflated answers for a body that could not be inflated: a bomb is too
// large; anything else is authentic and malformed.
func (in *Engine) refuseInflated(d *delivery, err error) *answer {
	switch {
	case errors.Is(err, errInflateTooLarge):
		return tooLarge(d.source)
	case errors.Is(err, errBodyBudget):
		return unavailable("too many bodies are being received", err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), d.deadline)
	defer cancel()
	if err := in.quarantine(ctx, d, []provider.Malformed{{Reason: err.Error(), Body: d.wire}}); err != nil {
		return unavailable("the quarantine could not be written", err)
	}
	return answerMalformed(d, err.Error())
}

// quarantine keeps authentic but unusable parts of d.
func (in *Engine) quarantine(ctx context.Context, d *delivery, malformed []provider.Malformed) error {
	header := encodeHeader(d.visible)
	for len(malformed) > 0 {
		var requests []driver.Quarantined
		for size := 0; len(malformed) > 0 && len(requests) < maxBatchClaims && size < maxBatchBytes; malformed = malformed[1:] {
			m := &malformed[0]
			size += len(header) + len(m.Body)
			requests = append(requests, driver.Quarantined{
				Source:   d.source.Name,
				BodyHash: sha256.Sum256(m.Body),
				Headers:  header,
				Body:     m.Body,
				Reason:   m.Reason,
			})
		}
		if err := in.store.Quarantine(ctx, &driver.QuarantineParams{Requests: requests}); err != nil {
			return err
		}
	}
	return nil
}

// claimsFor makes the claims of the events of d.
func (in *Engine) claimsFor(d *delivery, events []provider.Event) []driver.Claim {
	visible := d.visible
	if d.source.batch && visible.Get("Content-Encoding") != "" {
		// Items are cut from the inflated body.
		visible = visible.Clone()
		visible.Del("Content-Encoding")
	}
	if d.source.batch && d.source.extractor.HasDocument() {
		// Items are JSON, whatever the body is that they come from.
		visible = visible.Clone()
		visible.Set("Content-Type", "application/json")
	}
	header := encodeHeader(visible)
	claims := make([]driver.Claim, len(events))
	for i := range events {
		claims[i] = in.claimFor(d, &events[i], visible, header)
	}
	return claims
}

func (in *Engine) claimFor(d *delivery, ev *provider.Event, visible http.Header, header []byte) driver.Claim {
	src, body := d.source, d.wire
	if src.batch {
		body = ev.Body
	}
	key := driver.EventKey(src.Name, ev.IDParts...)
	claim := driver.Claim{
		Key:        key,
		Source:     src.Name,
		EventID:    ev.ID,
		Type:       ev.Type,
		OccurredAt: ev.Time,
		Headers:    header,
		Body:       body,
		BodyHash:   d.bodyHash(body),
		BodyGuard:  src.guard,
	}
	if src.Consume == ConsumeSQL || in.handles(src.Name, ev.Type) {
		claim.Work = driver.WorkQueued
	}
	if len(src.routes) > 0 {
		claim.Messages = in.owed(src, key, &Event{
			Source: src.Name, ID: ev.ID, Type: ev.Type, OccurredAt: ev.Time, Header: visible, Body: ev.Body,
		})
	}
	return claim
}

// bodyHash is by which a body is known again: of an item by its bytes, else by what of
// it is signed, so that nobody can spell it anew.
func (d *delivery) bodyHash(body []byte) [sha256.Size]byte {
	if d.source.batch {
		return sha256.Sum256(body)
	}
	return d.source.verifier.BodySum(body)
}

// visibleHeader returns h with "<secret>" in place of shared credentials, and of what
// repeats the query string, in which some providers send theirs: a proxy may have put
// it there. Bytes that are not UTF-8 are taken for ISO 8859-1, which is what HTTP once
// said they were.
func visibleHeader(h http.Header, hidden []string, rawQuery string) http.Header {
	out := make(http.Header, len(h))
	repeats := func(v string) bool { return rawQuery != "" && strings.Contains(v, "?"+rawQuery) }
	for name, values := range h {
		if slices.ContainsFunc(hidden, func(s string) bool { return strings.EqualFold(s, name) }) || slices.ContainsFunc(values, repeats) {
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
	return out
}

// encodeHeader returns h as it is stored: a JSON object of name to values, in the order
// of the names. Package encoding/json does the same, and takes ten times as long for it.
func encodeHeader(h http.Header) []byte {
	names := slices.Sorted(maps.Keys(h))
	out := make([]byte, 0, 512)
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendJSON(out, name), ":["...)
		for j, value := range h[name] {
			if j > 0 {
				out = append(out, ',')
			}
			out = appendJSON(out, value)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// appendJSON appends text as a JSON string.
func appendJSON(to []byte, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(to, bytes.TrimSuffix(mustJSON(text), []byte("\n"))...)
		}
	}
	return append(append(append(to, '"'), text...), '"')
}

func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// parseHeader reads what encodeHeader wrote.
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
