package config

import (
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/provider"
)

// Limits of a source's settings.
const (
	// A body larger than the budget for all bodies could never be claimed.
	maxBodyLimit  = defaults.BodyBytes
	maxAckTimeout = time.Minute
	maxAckBody    = 64 << 10
)

var sourceKeys = []string{
	"provider", "secrets", "signature", "token", "timestamp", "event", "url", "scheme", "key", "params", "ack", "ack_key", "max_body", "ack_timeout",
	"rate", "malformed", "redelivery", "replay_guard", "content_encoding", "dedupe_window", "retention", "consume", "order", "on_dead", "stale",
	"reconcile",
}

// sourceReader reads the sources.
type sourceReader struct {
	*loader
	sqlite bool
}

// sources reads the sources of the file, and then those of flags, which replace sources of the same
// name.
func (l *loader) sources(r *sourceReader, n *node, flags []field) []hookonce.Source {
	var out []hookonce.Source
	l.named(n, "source", func(name string, value *node) {
		if slices.ContainsFunc(flags, func(f field) bool { return f.key == name }) {
			l.warn(value, "a --source flag replaces this source, with its secrets")
			return
		}
		out = append(out, r.source(name, value))
	})
	for _, f := range flags {
		out = append(out, r.source(f.key, f.value))
	}
	return out
}

func (r *sourceReader) source(name string, n *node) hookonce.Source {
	r.places["sources."+name] = n
	m := r.mapping(n, sourceKeys...)
	s := hookonce.Source{
		Name:             name,
		Event:            r.event(m.get("event")),
		MaxBody:          r.size(m.get("max_body"), maxBodyLimit),
		AckTimeout:       r.duration(m.get("ack_timeout"), 1, maxAckTimeout),
		Rate:             r.rate(m.get("rate")),
		Ack:              r.ack(m.get("ack")),
		Malformed:        hookonce.Malformed(r.word(m.get("malformed"))),
		Redelivery:       hookonce.Redelivery(r.word(m.get("redelivery"))),
		ReplayGuard:      r.boolean(m.get("replay_guard")),
		ContentEncodings: r.words(m.get("content_encoding")),
		Consume:          hookonce.Consume(r.word(m.get("consume"))),
		Order:            r.order(m.get("order")),
		OnDead:           r.word(m.get("on_dead")),
		Stale:            r.stale(m.get("stale")),
		Reconcile:        r.reconcile(m.get("reconcile")),
		DedupeWindow:     r.duration(m.get("dedupe_window"), 1, maxAge),
		Retention:        r.duration(m.get("retention"), 1, maxAge),
	}
	name, _ = r.text(m.get("provider"))
	s.Provider = provider.Name(name)
	if s.Consume == hookonce.ConsumeSQL && r.sqlite {
		r.warn(m.get("consume"), "hookonce.take is on PostgreSQL only: on SQLite nothing takes the events, and they stay pending")
	}
	if s.Order != nil && r.sqlite {
		r.fault(m.get("order"), "it is for SQL consumers, which are on PostgreSQL only")
	}
	r.scheme(&s, m)
	r.secrets(&s, m)
	r.name(s.Name, m)
	return s
}

// reconcile reads how the provider's API is read.
func (r *sourceReader) reconcile(n *node) *hookonce.Reconcile {
	if n == nil {
		return nil
	}
	m := r.mapping(n, "key", "types", "params", "url", "delay", "every")
	key, _ := r.secret(m.get("key"))
	return &hookonce.Reconcile{
		Key: string(key), Types: r.types(m.get("types")), Params: r.params(m.get("params")), URL: r.word(m.get("url")),
		Delay: r.duration(m.get("delay"), 1, day), Every: r.duration(m.get("every"), time.Minute, day),
	}
}

// event reads the event rules of a source.
func (r *sourceReader) event(n *node) (rules provider.EventRules) {
	m := r.mapping(n, "id", "type", "time", "batch", "document")
	for key, to := range map[string]*string{
		"id": &rules.ID, "type": &rules.Type, "time": &rules.Time, "batch": &rules.Batch, "document": &rules.Document,
	} {
		value := m.get(key)
		text, ok := r.text(value)
		if ok && strings.TrimSpace(text) == "" {
			r.fault(value, "the location is empty; write it as body:path or header:Name")
		} else if ok {
			*to = text
		}
	}
	return rules
}

// ack reads the answer to an accepted event: only its body, or a mapping.
func (r *sourceReader) ack(n *node) *hookonce.Ack {
	if n == nil {
		return nil
	}
	ack, body := &hookonce.Ack{}, n
	if n.kind == kindMapping {
		m := r.mapping(n, "status", "content_type", "body")
		ack.Status = r.count(m.get("status"), 200, 299)
		body = m.get("body")
		contentType := m.get("content_type")
		if text, ok := r.text(contentType); ok {
			if _, _, err := mime.ParseMediaType(text); err != nil {
				r.fault(contentType, "%s is not a content type, such as text/plain", contentType.shown())
			}
			ack.ContentType = text
		}
	}
	text, ok := r.text(body)
	if ok && len(text) > maxAckBody {
		r.fault(body, "it has more than %d bytes", maxAckBody)
	}
	ack.Body = text
	return ack
}
