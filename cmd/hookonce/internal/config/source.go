package config

import (
	"cmp"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
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
	"rate", "malformed", "redelivery", "replay_guard", "content_encoding", "dedupe_window", "retention", "consume", "on_dead", "stale",
}

// sourceReader reads the sources.
type sourceReader struct {
	*loader
	window     time.Duration // the dedupe window for all sources
	windowNode *node         // its node; nil for the default
	sqlite     bool
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
	m := r.mapping(n, sourceKeys...)
	s := hookonce.Source{
		Name:             name,
		MaxBody:          r.size(m.get("max_body"), maxBodyLimit),
		AckTimeout:       r.duration(m.get("ack_timeout"), 1, maxAckTimeout),
		Rate:             r.rate(m.get("rate")),
		Ack:              r.ack(m.get("ack")),
		ReplayGuard:      r.boolean(m.get("replay_guard")),
		ContentEncodings: r.contentEncodings(m.get("content_encoding")),
		DedupeWindow:     r.duration(m.get("dedupe_window"), 1, maxAge),
		Retention:        r.duration(m.get("retention"), 1, maxAge),
		OnDead:           r.onDead("", m.get("on_dead")),
	}
	if r.choice(m.get("malformed"), "reject", "quarantine") == "quarantine" {
		s.Malformed = hookonce.MalformedQuarantine
	}
	if r.choice(m.get("redelivery"), "reopen", "ack") == "ack" {
		s.Redelivery = hookonce.RedeliveryAck
	}
	r.consume(&s, m.get("consume"))
	given := r.readSecrets(m)
	r.name(name, given, m)
	if spec := r.provider(n, m.get("provider")); spec != nil {
		s.Provider = spec.Name
		r.ofProvider(&s, n, m, spec, given)
	}
	return s
}

func (r *sourceReader) provider(source, n *node) *provider.Spec {
	name, ok := r.text(n)
	if n == nil {
		if source.kind == kindMapping || source.kind == kindNull {
			r.faultHint(source, "any sender that signs by HMAC works as hmac, one that sends a fixed secret as token or basic", "the source has no provider")
		}
		return nil
	}
	if !ok {
		return nil
	}
	spec, err := provider.Lookup(provider.Name(name))
	switch {
	case err != nil && n.hidden:
		hint := "hookonce providers lists them"
		if _, near, ok := strings.Cut(err.Error(), "did you mean "); ok {
			hint = "did you mean " + near // only the text of a known name: the flag may hold a secret
		}
		r.faultHint(n, hint, "unknown provider")
	case err != nil:
		r.fault(n, "%s", err)
	}
	return spec
}

// ofProvider reads the settings that depend on the provider.
func (r *sourceReader) ofProvider(s *hookonce.Source, n *node, m mapping, spec *provider.Spec, given givenSecrets) {
	verifier, scheme := r.verifier(s, n, m, spec)
	if s.Signature != nil {
		spec = spec.WithScheme(scheme)
	}
	event := m.get("event")
	rules := r.event(s, event, spec)
	extractor := r.compileRules(rules, spec, func(field string) *node {
		return nodeFor(n, event, field)
	})
	r.stale(s, m.get("stale"), spec, rules.Batch != "")
	r.ackKey(s, n, given, spec)
	if verifier == nil {
		return
	}
	r.secrets(s, n, given, verifier, &scheme, spec)
	r.url(s, n, m.get("url"), verifier)
	if s.ReplayGuard && extractor != nil {
		switch {
		case !verifier.NeedsKeys():
			r.fault(m.get("replay_guard"), "the source is unsigned, so this guards nothing")
		case verifier.Covers(extractor.ID()):
			r.fault(m.get("replay_guard"), "the event id is signed, so there is nothing to guard")
		}
	}
	r.checkSetUp(s, n, m.get("params"), spec)
	if !verifier.NeedsKeys() {
		r.unsigned = with(r.unsigned, s.Name, true)
		r.warn(n, "unsigned: anyone can send to /webhooks/%s", s.Name)
		r.warnings[len(r.warnings)-1].InStatus = true
	}
	r.checkWindow(s, m.get("dedupe_window"), spec)
	window := cmp.Or(s.DedupeWindow, max(r.window, spec.Retry.Window))
	if s.Retention > window {
		r.warnOfRetention(m.get("retention"), s.Retention, window)
	}
	if scheme.Timestamp != nil {
		if tolerance := cmp.Or(scheme.Timestamp.Tolerance, verify.DefaultTolerance); tolerance > window {
			r.warn(n, "the tolerance of source %s (%s) is longer than its dedupe window (%s): a captured request can take effect twice",
				s.Name, say.Setting(tolerance), say.Setting(window))
			r.warnings[len(r.warnings)-1].AtStart = true
		}
	}
}

// nodeFor returns the value of field, such as "event.id". within is the mapping of the field's
// first part, in outer; nil if it is missing. If there is no such value, nodeFor returns the
// nearest place for faults.
func nodeFor(outer, within *node, field string) *node {
	_, key, _ := strings.Cut(field, ".")
	if within == nil {
		return &node{path: joinPath(outer.path, field), line: outer.line, col: outer.col}
	}
	for _, f := range within.fields {
		if f.key == key {
			return f.value
		}
	}
	return &node{path: joinPath(outer.path, field), line: within.line, col: within.col}
}

// params reads the parameters, and gives scheme its values.
func (r *sourceReader) params(s *hookonce.Source, n, params *node, scheme *verify.Scheme, spec *provider.Spec) {
	if params != nil && params.kind != kindNull && params.kind != kindMapping {
		r.fault(params, "this must be a mapping of keys, but is %s", params.kind)
		return
	}
	values := make(map[string]string)
	if params != nil {
		for _, f := range params.fields {
			// An unusable value was reported, so it must not count as missing.
			value, _ := r.secret(f.value)
			values[f.key] = cmp.Or(string(value), "?")
		}
	}
	eachError(spec.SetParams(scheme, values), func(err error) {
		r.wrongField(err, func(field string) *node { return paramNode(n, params, field) })
	})
	if len(values) > 0 {
		s.Params = values
	}
}

// checkSetUp warns of missing parameters that a handshake of the provider needs.
func (r *sourceReader) checkSetUp(s *hookonce.Source, n, params *node, spec *provider.Spec) {
	for _, p := range spec.Params {
		if p.Need == verify.NeedOptional && s.Params[p.Name] == "" {
			at := paramNode(n, params, "params."+p.Name)
			r.warn(at, "it is not set, so the set-up request of %s is refused until it is: %s", spec.Name, p.About)
		}
	}
}

// paramNode returns the position of the parameter named by field, which is params.NAME: its key, or
// the place where it is missing.
func paramNode(source, params *node, field string) *node {
	at := *nodeFor(source, params, field)
	if params != nil {
		for _, f := range params.fields {
			if f.value.path == at.path {
				at.line, at.col = f.line, f.col
			}
		}
	}
	return &at
}

// event reads the event rules of the source and returns them merged over those of the provider.
func (r *sourceReader) event(s *hookonce.Source, n *node, spec *provider.Spec) provider.EventRules {
	m := r.mapping(n, "id", "type", "time", "batch", "document")
	rules := spec.Event
	for _, f := range []struct {
		key     string
		own, to *string
	}{
		{"id", &s.Event.ID, &rules.ID},
		{"type", &s.Event.Type, &rules.Type},
		{"time", &s.Event.Time, &rules.Time},
		{"batch", &s.Event.Batch, &rules.Batch},
		{"document", &s.Event.Document, &rules.Document},
	} {
		value := m.get(f.key)
		text, ok := r.text(value)
		if ok && strings.TrimSpace(text) == "" {
			r.fault(value, "the location is empty; write it as body:path or header:Name")
		} else if ok {
			*f.own, *f.to = text, text
		}
	}
	return rules
}

// checkWindow warns of a dedupe window that is shorter than the sender retries. The engine does not
// apply the window for all sources if it is too short.
func (r *sourceReader) checkWindow(s *hookonce.Source, own *node, spec *provider.Spec) {
	switch retries := say.Setting(spec.Retry.Window); {
	case s.DedupeWindow == 0 && r.windowNode != nil && r.window < spec.Retry.Window:
		r.warn(r.windowNode, "the dedupe window (%s) is shorter than %s retries: source %s uses %s instead",
			say.Setting(r.window), spec.Name, s.Name, retries)
	case s.DedupeWindow != 0 && s.DedupeWindow < spec.Retry.Window:
		r.warn(own, "the dedupe window of source %s (%s) is shorter than %s retries (%s): a late retry takes effect again",
			s.Name, say.Setting(s.DedupeWindow), spec.Name, retries)
		last := &r.warnings[len(r.warnings)-1]
		last.AtStart, last.InStatus = true, true
	}
}

func (l *loader) warnOfRetention(n *node, retention, window time.Duration) {
	l.warn(n, "a retention of %s is longer than the dedupe window of %s: bodies are removed with the identity, at the end of the window",
		say.Setting(retention), say.Setting(window))
}

func (r *sourceReader) consume(s *hookonce.Source, n *node) {
	if r.choice(n, "routes", "sql") != "sql" {
		return
	}
	s.Consume = hookonce.ConsumeSQL
	if r.sqlite {
		r.warn(n, "hookonce.take is on PostgreSQL only: on SQLite nothing takes the events, and they stay pending")
	}
}

func (r *sourceReader) contentEncodings(n *node) []string {
	var out []string
	for _, item := range r.list(n) {
		if enc := r.choice(item, "gzip"); enc != "" && !slices.Contains(out, enc) {
			out = append(out, enc)
		}
	}
	return out
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
	switch {
	case ok && len(text) > maxAckBody:
		r.fault(body, "it has more than %d bytes", maxAckBody)
	case ok && text != "" && (ack.Status == 204 || ack.Status == 205):
		r.fault(body, "an answer of status %d has no body", ack.Status)
	}
	ack.Body = text
	return ack
}

// url reads the public URL, which the signature may cover.
func (r *sourceReader) url(s *hookonce.Source, source, n *node, v *verify.Verifier) {
	text, ok := r.text(n)
	switch {
	case n == nil && v.NeedsURL():
		r.faultHint(source, "set url to the public URL that the sender was given", "the signature covers the URL, which is unknown")
	case ok:
		s.URL = text
		r.checkURL(n, text)
	}
}

// checkURL reports faults of an http URL. It does not quote the URL, which may hold a token.
func (l *loader) checkURL(n *node, text string) {
	if err := send.CheckURL(text); err != nil {
		l.fault(n, "%s", err)
	}
}
