package hookonce

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/provider"
)

// staleRules are the StaleRules of a source made ready. A nil one watches nothing.
type staleRules struct {
	source    string
	extractor *provider.Extractor
	rules     []staleRule
	log       *slog.Logger
	lines     *bucket // of the log
}

type staleRule struct {
	types        []typePattern
	key, version *locate.Expr
}

// newStaleRules returns nil where the source has no rules. Its events are taken out
// of deliveries by x.
func newStaleRules(s *Source, spec *provider.Spec, x *provider.Extractor, log *slog.Logger) (*staleRules, []error) {
	if len(s.Stale) == 0 {
		return nil, nil
	}
	var faults []error
	if s.Consume == ConsumeSQL {
		faults = append(faults, errors.New("stale: it cannot be applied with consume: sql, because the application applies the events by itself"))
	}
	out := &staleRules{source: s.Name, extractor: x, log: log, lines: newBucket(refusalRate)}
	for i := range s.Stale {
		rule := staleRule{types: typePatterns(s.Stale[i].Types)}
		for _, field := range []struct {
			name, text string
			to         **locate.Expr
		}{
			{"key", s.Stale[i].Key, &rule.key},
			{"version", s.Stale[i].Version, &rule.version},
		} {
			expr, err := spec.ParseStored(field.text, x.Batch())
			if err != nil {
				faults = append(faults, fmt.Errorf("stale[%d].%s: %w", i, field.name, err))
			}
			*field.to = expr
		}
		out.rules = append(out.rules, rule)
	}
	return out, faults
}

// watches reports whether a rule holds for events of a type.
func (s *staleRules) watches(eventType string) bool { return s.ruleFor(eventType) != nil }

func (s *staleRules) ruleFor(eventType string) *staleRule {
	if s == nil {
		return nil
	}
	for i := range s.rules {
		if matchesAny(s.rules[i].types, eventType) {
			return &s.rules[i]
		}
	}
	return nil
}

// objectOf returns the object that ev is about and its version, if there is a rule
// for ev and both can be read. scope is as for driver.ObjectKey.
func (s *staleRules) objectOf(scope string, ev *Event) (driver.ObjectVersion, bool) {
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
	version, err := rule.version.Eval(in)
	var encoded []byte
	if err == nil {
		encoded, err = encodeVersion(version.Parts)
	}
	if err != nil {
		s.unreadable(ev, "version", err)
		return driver.ObjectVersion{}, false
	}
	return driver.ObjectVersion{
		Object:  driver.ObjectKey(s.source, scope, joinParts(object.Parts)),
		Source:  s.source,
		Version: encoded,
		Shown:   cutText(version.Shown(), maxVersion),
	}, true
}

// unreadable tells of an event that is applied whatever its version. That
// something is absent is no news: not every event need have it.
func (s *staleRules) unreadable(ev *Event, what string, err error) {
	if errors.Is(err, locate.ErrAbsent) || s.lines.take(time.Now()) > 0 {
		return
	}
	s.log.Warn("a stale rule cannot be applied to an event, which is taken for a new one",
		slog.String("source", ev.Source), slog.String("event_id", ev.ID), slog.String("unreadable", what), slog.Any("error", err))
}

// staleReason says why something is not applied; own and applied are versions as
// they are shown.
func staleReason(own, applied string) string {
	return fmt.Sprintf("version %s is older than %s, which was applied", own, applied)
}

// joinParts returns one text that differs where any part does.
func joinParts(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Itoa(len(p)) + ":" + p)
	}
	return b.String()
}

// cutText returns the beginning of text, at most limit bytes of whole characters.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
