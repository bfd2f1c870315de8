package sample

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// model is a body to make others from. A nil model has nothing.
type model struct {
	doc    []byte     // JSON; nil for a form
	form   url.Values // nil for JSON
	unique bool

	item  []string // the steps to the first item of a batch
	outer string   // the path of the element around it; "" if there is none
}

// newModel reads a body of the sender; nil for none.
func (s *Sender) newModel(body []byte, unique bool) (*model, error) {
	if body == nil {
		return nil, nil
	}
	m := &model{unique: unique}
	if s.Rules.Document != "" {
		return nil, fmt.Errorf("a body of provider %s is %s, which is not changed: only JSON and forms are", s.Spec.Name, s.Rules.Document)
	}
	if locate.IsMultipart(body) {
		return nil, errors.New("the body is multipart/form-data, which is not changed: only JSON and urlencoded forms are")
	}
	if s.contentTypeOf(body) == formType {
		var err error
		m.form, err = url.ParseQuery(string(locate.Unmarked(body)))
		return m, err
	}
	if m.doc = bytes.TrimSpace(locate.Unmarked(body)); !json.Valid(m.doc) {
		return nil, errors.New("the body is not JSON")
	}
	return m, m.findItem(s.Rules.Batch, s.Scheme.Each)
}

// findItem finds the first item by the alternatives of the first rule that is not empty.
func (m *model) findItem(rules ...string) error {
	i := slices.IndexFunc(rules, func(r string) bool { return r != "" })
	if i < 0 {
		return nil
	}
	for rule := range strings.SplitSeq(rules[i], "|") {
		text, ok := strings.CutPrefix(strings.TrimSpace(rule), string(locate.Body)+":")
		if !ok { // "one": the document is the item
			return nil
		}
		path, err := locate.ParsePath(text)
		if err != nil {
			return err
		}
		steps := append(path.Steps(), "0")
		if _, ok := lookup(m.doc, steps); ok {
			m.item, m.outer = steps, outerPath(rule)
			return nil
		}
	}
	return errors.New("the body is not a batch of the provider")
}

// steps returns the steps to a location of the document. It returns false for other locations.
func (m *model) steps(ref locate.Ref) ([]string, bool) {
	name := ref.Name
	var before []string
	switch ref.Kind {
	case locate.Body:
	case locate.Item:
		before = m.item
	case locate.Outer:
		if m.outer == "" {
			return nil, false
		}
		name = m.outer + "." + name
	default:
		return nil, false
	}
	path, err := locate.ParsePath(name)
	if err != nil {
		return nil, false
	}
	return slices.Concat(before, path.Steps()), true
}

// value returns the JSON at a location.
func (m *model) value(ref locate.Ref) (json.RawMessage, bool) {
	if m == nil {
		return nil, false
	}
	if ref.Kind == locate.Form {
		return quote(m.form.Get(ref.Name)), m.form.Has(ref.Name)
	}
	steps, ok := m.steps(ref)
	if !ok || m.doc == nil {
		return nil, false
	}
	return lookup(m.doc, steps)
}

func (m *model) has(ref locate.Ref) bool {
	_, found := m.value(ref)
	return found
}

// lacks reports whether a location is in the body, and the model has nothing there.
func (m *model) lacks(ref locate.Ref) bool { return m != nil && inBody(ref.Kind) && !m.has(ref) }

// differs reports whether the model differs from those of other events.
func (m *model) differs() bool { return m != nil && m.unique }

// text returns the text or the number at a location, or "".
func (m *model) text(ref locate.Ref) string {
	value, _ := m.value(ref)
	var text string
	var number json.Number
	if json.Unmarshal(value, &text) != nil && json.Unmarshal(value, &number) == nil {
		return number.String()
	}
	return text
}

// refs returns the places of the first alternative of a rule that the model has, or else of the
// first one; none for "". An optional place that the model lacks is left out.
func (m *model) refs(rule string) ([]locate.Ref, error) {
	if m == nil || strings.TrimSpace(rule) == "" {
		return firstRefs(rule)
	}
	e, err := locate.ParseType(rule)
	if err != nil {
		return nil, err
	}
	for _, refs := range e.Alternatives() {
		refs = slices.DeleteFunc(refs, func(r locate.Ref) bool { return r.Optional && m.lacks(r) })
		if slices.ContainsFunc(refs, m.lacks) {
			continue
		}
		for i := range refs {
			refs[i].Optional = false
		}
		return refs, nil
	}
	return firstRefs(rule)
}

func inBody(k locate.Kind) bool {
	return k == locate.Body || k == locate.Item || k == locate.Outer || k == locate.Form
}

var (
	wholeNumber = regexp.MustCompile(`^[0-9]+$`)
	decimal     = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)
	millis      = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+`)
)

// timeText formats a time as the model has the one at ref; RFC 3339 by default.
func (m *model) timeText(ref locate.Ref, at time.Time) string {
	switch text := m.text(ref); {
	case wholeNumber.MatchString(text) && len(text) >= 13:
		return strconv.FormatInt(at.UnixMilli(), 10)
	case wholeNumber.MatchString(text):
		return strconv.FormatInt(at.Unix(), 10)
	case decimal.MatchString(text):
		return fmt.Sprintf("%d.%06d", at.Unix(), at.Nanosecond()/1000)
	case millis.MatchString(text):
		return at.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	if _, err := time.Parse(time.RFC1123Z, m.text(ref)); err == nil {
		return at.UTC().Format(time.RFC1123Z)
	}
	return at.UTC().Format(time.RFC3339)
}

// body returns the model with the wanted values.
func (m *model) body(wants []want) ([]byte, error) {
	for i := range wants {
		w := &wants[i]
		if w.ref.Kind == locate.SHA256 {
			w.ref = m.noncePlace(w.ref)
		}
		if !inBody(w.ref.Kind) || !w.event && m.has(w.ref) {
			continue
		}
		if m.form != nil {
			if w.ref.Kind == locate.Form {
				m.form.Set(w.ref.Name, w.value)
			}
			continue
		}
		steps, ok := m.steps(w.ref)
		if !ok {
			continue
		}
		var err error
		if m.doc, err = splice(m.doc, steps, m.encode(w), nil); err != nil {
			return nil, err
		}
	}
	if m.form != nil {
		return []byte(m.form.Encode()), nil
	}
	return m.doc, nil
}

// noncePlace returns the place that makes bodies differ if the id is a digest of ref.
func (m *model) noncePlace(ref locate.Ref) locate.Ref {
	switch {
	case m.form != nil:
		return locate.Ref{Kind: locate.Form, Name: cmp.Or(ref.SummedField(), nonce)}
	case ref.In() == locate.Item:
		return locate.Ref{Kind: locate.Item, Name: nonce}
	}
	return locate.Ref{Kind: locate.Body, Name: nonce}
}

// encode returns a value in the JSON kind of the one that it replaces, if it fits.
func (m *model) encode(w *want) []byte {
	before, _ := m.value(w.ref)
	text := w.value
	if len(before) > 0 && before[0] != '"' && before[0] != '{' && before[0] != '[' {
		number := before[0] == '-' || before[0] >= '0' && before[0] <= '9'
		if number && w.made {
			hash := fnv.New64a()
			_, _ = hash.Write([]byte(text)) // a hash never fails
			text = strconv.FormatUint(hash.Sum64()>>16, 10)
		}
		if json.Valid([]byte(text)) {
			return []byte(text)
		}
	}
	return quote(text)
}

// quote returns text as JSON, with < and > as they are.
func quote(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Whole returns a batch with the item alone, as the provider would send it. If the provider
// sends single items too, it is the item.
func (s *Sender) Whole(item []byte) ([]byte, error) {
	var path *locate.Path
	for rule := range strings.SplitSeq(cmp.Or(s.Scheme.Each, s.Rules.Batch), "|") {
		text, ok := strings.CutPrefix(strings.TrimSpace(rule), string(locate.Body)+":")
		if !ok { // "one", or no batches at all
			return item, nil
		}
		if path == nil {
			p, err := locate.ParsePath(text)
			if err != nil {
				return nil, err
			}
			path = &p
		}
	}
	return nest(append(path.Steps(), locate.Every), item), nil
}
