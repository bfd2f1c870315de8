package sample

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// want is a place of a request and the value for it.
type want struct {
	ref   locate.Ref
	value string
	given bool // by the caller, so it replaces an existing value
	event bool // a field of the event, which replaces that of a model
	made  bool // a made-up id
}

// planner collects the values that a request needs, the most important first. The first value for a
// place wins.
type planner struct {
	wants  []want
	now    time.Time
	within locate.Kind // kind of the places of an event: Item in a batch, otherwise Body
	outer  string      // path of the element around an item; "" if there is none
	model  *model      // nil without one
}

// wants returns the values that the event and the signature need.
func (s *Sender) wants(ev Event, now time.Time, m *model) ([]want, error) {
	p := &planner{now: now, within: locate.Body, model: m}
	if s.Rules.Batch != "" || s.Scheme.Each != "" {
		p.within = locate.Item
		p.outer = outerPath(cmp.Or(s.Rules.Batch, s.Scheme.Each))
	}
	if m != nil {
		p.outer = m.outer
	}
	if err := s.wantEvent(p, ev); err != nil {
		return nil, err
	}
	for _, r := range s.Scheme.Require {
		if text, ok := s.expand(r.Equals); ok {
			p.addRule(r.At, text)
		}
	}
	if s.Scheme.Family == verify.FamilyStandardWebhooks && !slices.ContainsFunc(p.wants, isStandardID) {
		p.addRule("header:webhook-id", cmp.Or(ev.ID, NewID())) // signing moves it to svix-id where the provider does
	}
	p.signedTime(s.Scheme.Timestamp)
	for _, text := range s.templates() {
		p.signedContent(text)
	}
	for _, at := range slices.Sorted(maps.Keys(s.Spec.Sample)) {
		p.addRule(at, stamped(s.Spec.Sample[at], now))
	}
	return p.wants, nil
}

func isStandardID(w want) bool {
	return w.ref.Kind == locate.Header && (w.ref.Name == "Webhook-Id" || w.ref.Name == "Svix-Id")
}

// wantEvent adds the id, the type and the time of the event.
func (s *Sender) wantEvent(p *planner, ev Event) error {
	id, errID := p.model.refs(s.Rules.ID)
	typ, errType := p.model.refs(s.Rules.Type)
	at, errTime := p.model.refs(s.Rules.Time)
	if err := errors.Join(errID, errType, errTime); err != nil {
		return err
	}
	texts := map[string]string{} // type and time, by place
	if ev.Type != "" {
		for i, text := range spread(ev.Type, len(typ), func(int) string { return ev.Type }) {
			texts[typ[i].String()] = text
		}
	}
	for _, ref := range at {
		if ev.Time.IsZero() || texts[ref.String()] != "" || p.model.lacks(ref) {
			continue
		}
		texts[ref.String()] = s.timeText(ref, ev.Time, p.model)
	}
	before := len(p.wants)
	p.addID(id, &ev, texts)
	for _, ref := range slices.Concat(typ, at) {
		if text := texts[ref.String()]; text != "" {
			p.add(ref, text, ev.Type != "" && slices.Contains(typ, ref))
		}
	}
	for i := range p.wants[before:] {
		p.wants[before+i].event = true
	}
	return nil
}

// addID adds the parts of an id. At least one part differs in every event, even if the id consists
// only of the type and the time. Other parts stay as a model has them.
func (p *planner) addID(refs []locate.Ref, ev *Event, texts map[string]string) {
	given, id := ev.ID != "", ev.ID
	if !given {
		id = NewID()
	}
	own := slices.IndexFunc(refs, func(r locate.Ref) bool { return texts[r.String()] == "" })
	if named := slices.IndexFunc(refs, namesEvent); named >= 0 && p.model != nil {
		own = named
	}
	if own < 0 {
		own = len(refs) - 1
	}
	parts := spread(id, len(refs), func(i int) string {
		if i == own {
			return id
		}
		return cmp.Or(texts[refs[i].String()], p.model.text(refs[i]), "1")
	})
	for i, ref := range refs {
		if !given && p.model.has(ref) || ref.Kind == locate.SHA256 && p.model.differs() {
			continue
		}
		p.add(ref, parts[i], given)
		if last := len(p.wants) - 1; i == own && last >= 0 && p.wants[last].ref == ref {
			p.wants[last].made = ev.MadeUp
		}
	}
	if own < 0 || refs[own].Kind == locate.Header || refs[own].Kind == locate.Query {
		if p.model == nil || given && !p.model.unique {
			p.add(locate.Ref{Kind: locate.SHA256, Name: string(p.within)}, id, given) // otherwise all bodies would be equal
		}
	}
}

// namesEvent reports whether a location is that of an id of the event itself, as its name says.
func namesEvent(ref locate.Ref) bool {
	return strings.HasSuffix(strings.ToLower(strings.ReplaceAll(ref.Name, "_", "")), "eventid")
}

// spread splits text into n parts. If it has another number of parts, part returns each of them
// instead.
func spread(text string, n int, part func(int) string) []string {
	pieces := strings.Split(text, ":")
	if n == 1 {
		return []string{text}
	}
	if len(pieces) == n && !slices.Contains(pieces, "") {
		return pieces
	}
	out := make([]string, n)
	for i := range out {
		out[i] = part(i)
	}
	return out
}

// timeText formats a time in the sender's format for ref.
func (s *Sender) timeText(ref locate.Ref, at time.Time, m *model) string {
	if t := s.Scheme.Timestamp; t != nil {
		if refs, err := firstRefs(t.At); err == nil && slices.Contains(refs, ref) {
			return verify.FormatTime(t.Format, at)
		}
	}
	if sample := s.Spec.Sample[ref.String()]; timeMark.MatchString(sample) {
		return stamped(sample, at)
	}
	return m.timeText(ref, at)
}

var timeMark = regexp.MustCompile(`\{time:([a-z0-9_]+)\}`)

// stamped returns a value of Spec.Sample with the time.
func stamped(value string, at time.Time) string {
	return timeMark.ReplaceAllStringFunc(value, func(mark string) string {
		return verify.FormatTime(timeMark.FindStringSubmatch(mark)[1], at)
	})
}

// add wants value at ref, unless another value is already wanted there.
func (p *planner) add(ref locate.Ref, value string, given bool) {
	if ref.Kind == locate.Const || ref.Key != "" { // a member of the signature's header
		return
	}
	if ref.Kind == locate.Outer {
		if p.outer == "" { // absent from the items of this alternative
			return
		}
		ref = locate.Ref{Kind: locate.Body, Name: p.outer + "." + ref.Name}
	}
	if !slices.ContainsFunc(p.wants, func(w want) bool { return w.ref == ref }) {
		p.wants = append(p.wants, want{ref: ref, value: value, given: given})
	}
}

// outerPath returns the path of the element around the items of a batch, up to its last "[]".
func outerPath(batch string) string {
	first, _, _ := strings.Cut(batch, "|")
	path := strings.TrimPrefix(strings.TrimSpace(first), string(locate.Body)+":")
	if at := strings.LastIndex(path, locate.Every); at >= 0 {
		return path[:at+len(locate.Every)]
	}
	return ""
}

// addRule wants value at the place of a scheme's rule.
func (p *planner) addRule(rule, value string) {
	refs, err := firstRefs(rule)
	if err != nil || len(refs) != 1 {
		return // the scheme compiles, so signing fills this place in
	}
	p.add(refs[0], value, false)
}

// signedTime wants the signed time if it is in the body; signing sets times in headers.
func (p *planner) signedTime(t *verify.Timestamp) {
	if t != nil && !strings.HasPrefix(t.At, "header:") {
		p.addRule(t.At, verify.FormatTime(t.Format, p.now))
	}
}

// taken matches the parts of the request in a template.
var taken = regexp.MustCompile(`\{(header|query|json|form|item|item_free):([^}]+)\}`)

var takenKinds = map[string]locate.Kind{
	"header": locate.Header, "query": locate.Query,
	"json": locate.Body, "form": locate.Form, "item": locate.Item, "item_free": locate.Item,
}

// signedContent wants every part of the request that a template uses.
func (p *planner) signedContent(template string) {
	for _, match := range taken.FindAllStringSubmatch(template, -1) {
		p.addRule(string(takenKinds[match[1]])+":"+match[2], "1")
	}
	for name, rules := range irregular {
		if strings.Contains(template, "{"+name+"}") {
			for _, rule := range rules {
				p.addRule(rule, "1")
			}
		}
	}
}

// irregular lists contents that single providers have invented, with the places that they use and
// that must exist.
var irregular = map[string][]string{
	"sns":          {"body:Type", "body:MessageId", "body:TopicArn", "body:Message", "body:Timestamp"},
	"mercado_pago": {"query:data.id", "header:x-request-id"},
}

// templates returns every template that a scheme signs or claims.
func (s *Sender) templates() []string {
	texts := []string{s.Scheme.Content}
	if s.Scheme.JWT != nil {
		for _, c := range s.Scheme.JWT.Claims {
			texts = append(texts, c.Equals)
		}
	}
	return texts
}

var param = regexp.MustCompile(`\{param:([^}]+)\}`)

// expand inserts the parameters into a template. It reports false if a parameter is not set, or if
// the template contains other references.
func (s *Sender) expand(template string) (string, bool) {
	ok := true
	text := param.ReplaceAllStringFunc(template, func(match string) string {
		value, set := s.Scheme.Values[param.FindStringSubmatch(match)[1]]
		ok = ok && set
		return value
	})
	return text, ok && !strings.Contains(text, "{")
}

// firstRefs returns the places of the first alternative of a rule; none for "".
func firstRefs(rule string) ([]locate.Ref, error) {
	if strings.TrimSpace(rule) == "" {
		return nil, nil
	}
	e, err := locate.ParseType(rule)
	if err != nil {
		return nil, err
	}
	refs := e.First()
	for i := range refs {
		refs[i].Optional = false // samples contain optional parts too
	}
	return refs, nil
}

func (w *want) setHeader(h http.Header) {
	if w.given || h.Get(w.ref.Name) == "" {
		h.Set(w.ref.Name, w.value)
	}
}

func (w *want) setQuery(req *verify.Request) {
	query, err := url.ParseQuery(req.RawQuery)
	if err != nil || query.Has(w.ref.Name) && !w.given {
		return
	}
	if query.Has(w.ref.Name) {
		query.Set(w.ref.Name, w.value)
		req.RawQuery = query.Encode()
		return
	}
	// Append, because the order and the escapes of the existing query may be signed.
	if req.RawQuery != "" {
		req.RawQuery += "&"
	}
	req.RawQuery += url.Values{w.ref.Name: {w.value}}.Encode()
}
