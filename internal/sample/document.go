package sample

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/provider"
)

const (
	jsonType = "application/json"
	xmlType  = "application/xml"
	formType = "application/x-www-form-urlencoded"
)

// body makes a body that holds what is wanted in it.
func (s *Sender) body(wants []want) ([]byte, error) {
	form := url.Values{}
	var doc, item any
	for _, w := range wants {
		var err error
		switch w.ref.Kind {
		case locate.Form:
			form.Set(w.ref.Name, w.value)
		case locate.Body:
			doc, err = set(doc, w.ref.Name, w.value)
		case locate.Item:
			item, err = set(item, w.ref.Name, w.value)
		case locate.SHA256:
			// The id is the digest, so the bytes must differ.
			if w.ref.In() == locate.Item {
				item, err = set(item, nonce, w.value)
			} else {
				doc, err = set(doc, nonce, w.value)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	doc, err := s.batch(doc, item)
	if err != nil {
		return nil, err
	}
	return s.encode(doc, form)
}

// nonce is the member that makes a body different from all others where the id
// is a digest of it.
const nonce = "sample"

// batch puts the item into the document, where there are batches. Where the
// document would be the batch itself and has fields of its own, the item is alone.
func (s *Sender) batch(doc, item any) (any, error) {
	for rule := range strings.SplitSeq(cmp.Or(s.Rules.Batch, s.Scheme.Each), "|") {
		rule = strings.TrimSpace(rule)
		if rule == "one" {
			return join(doc, item), nil
		}
		path, ok := strings.CutPrefix(rule, string(locate.Body)+":")
		if !ok || path == "" && doc != nil {
			continue
		}
		if item == nil {
			item = map[string]any{nonce: "1"}
		}
		return set(doc, path, []any{item})
	}
	return doc, nil
}

// join returns an object with the members of both.
func join(doc, item any) any {
	members, ok := doc.(map[string]any)
	more, isObject := item.(map[string]any)
	if !ok || !isObject {
		if item == nil {
			return doc
		}
		return item
	}
	maps.Copy(members, more)
	return members
}

// encode writes the document as the provider does.
func (s *Sender) encode(doc any, form url.Values) ([]byte, error) {
	kind, field, _ := strings.Cut(s.Rules.Document, ":")
	isForm := s.ContentType() == formType
	if doc == nil && (kind != "" || !isForm) {
		doc = map[string]any{nonce: "1"}
	}
	var text []byte
	var err error
	if kind == provider.DocumentXML || kind == provider.DocumentFormXML {
		text, err = encodeXML(doc)
	} else {
		text, err = json.Marshal(doc)
	}
	switch {
	case err != nil || !isForm:
		return text, err // of a JWT the claims, which signing makes it of
	case kind == provider.DocumentFormXML:
		form.Set(field, base64.StdEncoding.EncodeToString(text))
	case kind == provider.DocumentForm:
		form.Set(field, string(text))
	default:
		addFields(form, doc)
	}
	return []byte(form.Encode()), nil
}

// signsForm reports whether the signature is made over the fields of a form, or
// stands in one.
func (s *Sender) signsForm() bool {
	return strings.Contains(s.Scheme.Content, "_form}") || strings.Contains(s.Scheme.Content, "{form:") ||
		strings.HasPrefix(s.Scheme.At, "form:")
}

// addFields adds to a form what of a document can be a field: a body is one or
// the other.
func addFields(form url.Values, doc any) {
	fields, _ := doc.(map[string]any)
	for name, value := range fields {
		if text, ok := value.(string); ok && !form.Has(name) {
			form.Set(name, text)
		}
	}
	if len(form) == 0 {
		form.Set(nonce, "1")
	}
}

// set puts value where path points into node, and makes what is on the way. A
// path has the form of package locate's.
func set(node any, path string, value any) (any, error) {
	p, err := locate.ParsePath(path)
	if err != nil {
		return nil, err
	}
	out, ok := setAt(node, p.Steps(), value)
	if !ok {
		return nil, fmt.Errorf("two fields of the event stand at %q and above it", path)
	}
	return out, nil
}

// setAt reports false where something of another kind is in the way.
func setAt(node any, steps []string, value any) (any, bool) {
	if len(steps) == 0 {
		return value, node == nil
	}
	index, isIndex := 0, steps[0] == locate.Every
	if n, err := strconv.Atoi(steps[0]); err == nil && n >= 0 && n < maxIndex {
		index, isIndex = n, true
	}
	switch node := node.(type) {
	case nil:
		if isIndex {
			return setElement(nil, index, steps[1:], value)
		}
		return setMember(map[string]any{}, steps, value)
	case map[string]any:
		return setMember(node, steps, value)
	case []any:
		if isIndex {
			return setElement(node, index, steps[1:], value)
		}
	}
	return nil, false
}

func setMember(node map[string]any, steps []string, value any) (any, bool) {
	child, ok := setAt(node[steps[0]], steps[1:], value)
	node[steps[0]] = child
	return node, ok
}

func setElement(list []any, index int, steps []string, value any) (any, bool) {
	for len(list) <= index {
		list = append(list, nil)
	}
	child, ok := setAt(list[index], steps, value)
	list[index] = child
	return list, ok
}

// maxIndex bounds the arrays that a path can make.
const maxIndex = 100

// encodeXML writes a document as elements: an object's members are elements
// of their names, an array is its element again and again.
func encodeXML(doc any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("the event's fields name no element of an XML document")
	}
	for name, value := range root { // one is the root element, and the nonce moves into it
		if element, ok := value.(map[string]any); ok && name != nonce && root[nonce] != nil {
			element[nonce] = root[nonce]
			delete(root, nonce)
		}
	}
	if len(root) != 1 {
		return nil, errors.New("the event's fields are in several root elements of an XML document")
	}
	writeXML(&b, root)
	return b.Bytes(), nil
}

// Of package provider's reading of XML: attributes of an element, and its text
// beside them.
const (
	attribute  = "@"
	textBeside = "#text"
)

func writeXML(b *bytes.Buffer, node map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(node)) {
		if strings.HasPrefix(name, attribute) {
			continue
		}
		list, ok := node[name].([]any)
		if !ok {
			list = []any{node[name]}
		}
		for _, value := range list {
			writeElement(b, name, value)
		}
	}
}

func writeElement(b *bytes.Buffer, name string, value any) {
	text, _ := value.(string)
	if name == textBeside {
		escape(b, text)
		return
	}
	element, _ := value.(map[string]any)
	b.WriteString("<" + name)
	for _, member := range slices.Sorted(maps.Keys(element)) {
		if attr, ok := strings.CutPrefix(member, attribute); ok {
			text, _ := element[member].(string)
			b.WriteString(" " + attr + `="`)
			escape(b, text)
			b.WriteByte('"')
		}
	}
	b.WriteByte('>')
	writeXML(b, element)
	escape(b, text)
	b.WriteString("</" + name + ">")
}

func escape(b *bytes.Buffer, text string) {
	_ = xml.EscapeText(b, []byte(text)) // a buffer takes all
}
