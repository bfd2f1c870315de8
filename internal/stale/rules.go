// Package stale decides which of two events about one object is newer. It reads an object's key and
// version out of stored events and encodes versions so that they compare byte by byte.
package stale

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/provider"
)

// Rule is one stale rule of a source. Key and Version are locations, as "body:data.object.id".
type Rule struct {
	Matches      func(eventType string) bool
	Key, Version string
}

// Rules are the stale rules of one source, ready to use, also concurrently. A nil *Rules matches no
// event.
type Rules struct {
	source    string
	extractor *provider.Extractor
	rules     []rule
	log       *slog.Logger
	lines     *limit.Bucket // of the log
}

type rule struct {
	matches      func(eventType string) bool
	key, version *locate.Expr // version is nil for an order without versions
}

// warnings bounds the log lines about unreadable events, per second.
const warnings = 100

// New compiles the rules of a source, whose events x extracts from deliveries. It returns nil if
// there are none. The error joins a *provider.RuleError for each faulty field, such as "stale[0].key".
func New(source string, rules []Rule, spec *provider.Spec, x *provider.Extractor, log *slog.Logger) (*Rules, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	c := compiling{spec: spec, batch: x.Batch()}
	out := &Rules{source: source, extractor: x, log: log, lines: limit.New(warnings, time.Second)}
	for i, r := range rules {
		at := fmt.Sprintf("stale[%d]", i)
		out.rules = append(out.rules, rule{
			r.Matches, c.parse(at+".key", r.Key, aboutKey), c.parse(at+".version", r.Version, "where its version stands, as body:created"),
		})
	}
	return out, errors.Join(c.faults...)
}

const aboutKey = "where the id of the object stands, as body:data.object.id"

// NewOrder compiles the order of a route for the events of one source, as New does. An empty version means the order
// of the claims; then ObjectOf returns no version. The error joins a *provider.RuleError for "order.key" and "order.version".
func NewOrder(source, key, version string, spec *provider.Spec, x *provider.Extractor, log *slog.Logger) (*Rules, error) {
	c := compiling{spec: spec, batch: x.Batch()}
	r := rule{matches: func(string) bool { return true }, key: c.parse("order.key", key, aboutKey)}
	if version != "" {
		r.version = c.parse("order.version", version, "")
	}
	out := &Rules{source: source, extractor: x, log: log, lines: limit.New(warnings, time.Second), rules: []rule{r}}
	return out, errors.Join(c.faults...)
}

// compiling compiles the locations of rules.
type compiling struct {
	spec   *provider.Spec
	batch  bool
	faults []error
}

func (c *compiling) parse(field, text, about string) *locate.Expr {
	expr, err := c.spec.ParseStored(text, c.batch)
	if text == "" {
		err = errors.New("it is missing: " + about)
	}
	if err != nil {
		c.faults = append(c.faults, &provider.RuleError{Field: field, Err: err})
	}
	return expr
}

// Event is a stored event as the rules read it: its headers, and its body inflated.
type Event struct {
	ID, Type string
	Header   http.Header
	Body     []byte
}

// Watches reports whether a rule matches events of this type.
func (s *Rules) Watches(eventType string) bool { return s.ruleFor(eventType) != nil }

func (s *Rules) ruleFor(eventType string) *rule {
	if s == nil {
		return nil
	}
	for i := range s.rules {
		if s.rules[i].matches(eventType) {
			return &s.rules[i]
		}
	}
	return nil
}

// ObjectOf returns the object that ev is about, with its version. ok is false if no rule matches ev
// or if the object or version cannot be read. scope is the scope of driver.ObjectKey: "" for
// handlers, the name of the route for messages.
func (s *Rules) ObjectOf(scope string, ev *Event) (v driver.ObjectVersion, ok bool) {
	rule := s.ruleFor(ev.Type)
	if rule == nil {
		return driver.ObjectVersion{}, false
	}
	in := s.extractor.Stored(ev.Header, ev.Body)
	object, err := rule.key.Eval(in)
	if err != nil {
		s.unreadable(ev, "key", err)
		return driver.ObjectVersion{}, false
	}
	v = driver.ObjectVersion{Object: driver.ObjectKey(s.source, scope, joinParts(object.Parts)), Source: s.source}
	if rule.version == nil {
		return v, true
	}
	version, err := rule.version.Eval(in)
	var encoded []byte
	if err == nil {
		encoded, err = encodeVersion(version.Parts)
	}
	if err != nil {
		s.unreadable(ev, "version", err)
		return driver.ObjectVersion{}, false
	}
	v.Version, v.Shown = encoded, cutText(version.Shown(), maxVersion)
	return v, true
}

// OrderOf returns the place of ev in a line, for Rules of NewOrder, as ObjectOf does.
func (s *Rules) OrderOf(scope string, ev *Event, hold bool) *driver.Order {
	v, ok := s.ObjectOf(scope, ev)
	if !ok {
		return nil
	}
	return &driver.Order{Line: v, Hold: hold}
}

// unreadable logs an event that is applied although its version cannot be compared. An absent
// field is normal: not every event has it.
func (s *Rules) unreadable(ev *Event, field string, err error) {
	if errors.Is(err, locate.ErrAbsent) || s.lines.Take(time.Now()) > 0 {
		return
	}
	s.log.Warn("a stale rule or an order cannot be applied; the event counts as new, and has no order",
		slog.String("source", s.source), slog.String("event_id", ev.ID), slog.String("unreadable", field), slog.Any("error", err))
}

// Compare orders two versions of one object: negative if a is older than b, 0 if they are equal.
func Compare(a, b *driver.ObjectVersion) int { return bytes.Compare(a.Version, b.Version) }

// Reason says why an event or message is not applied.
func Reason(own, applied *driver.ObjectVersion) string {
	return fmt.Sprintf("version %s is older than %s, which was applied", own.Shown, applied.Shown)
}

// joinParts joins parts into one text, injectively: each part carries its length.
func joinParts(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Itoa(len(p)) + ":" + p)
	}
	return b.String()
}

// cutText cuts text to at most limit bytes, between characters.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
