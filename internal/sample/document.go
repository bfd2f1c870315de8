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

// body makes a body with the wanted values.
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
			// The id is the digest of the body or of a field, so the bytes must differ.
			switch field := w.ref.SummedField(); {
			case field != "" && s.Rules.Document == "":
				form.Set(field, w.value)
			case w.ref.In() == locate.Item:
				item, err = set(item, nonce, w.value)
			default:
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

// nonce is a member that makes bodies differ if the id is a digest of the body.
const nonce = "sample"

// batch puts the item into the document if there are batches. If the whole document would be the
// batch but has fields of its own, the item stays alone.
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

// encode encodes the document in the provider's format.
func (s *Sender) encode(doc any, form url.Values) ([]byte, error) {
	kind, field, _ := strings.Cut(s.Rules.Document, ":")
	isForm := s.ContentType() == formType
	if doc == nil && (kind != "" || !isForm) {
		doc = map[string]any{nonce: "1"}
	}
	if members, ok := doc.(map[string]any); ok && kind == provider.DocumentJWT {
		if err := writeTexts(members); err != nil {
			return nil, err
		}
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
		return text, err // for a JWT these are the claims; signing makes the token
	case kind == provider.DocumentFormXML:
		form.Set(field, base64.StdEncoding.EncodeToString(text))
	case kind == provider.DocumentForm:
		form.Set(field, string(text))
	default:
		addFields(form, doc)
	}
	return []byte(form.Encode()), nil
}

// writeTexts replaces the objects below members by JSON texts, as Wix writes them into its claims.
func writeTexts(members map[string]any) error {
	for name, value := range members {
		object, ok := value.(map[string]any)
		if !ok {
			continue
		}
		if err := writeTexts(object); err != nil {
			return err
		}
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		members[name] = string(text)
	}
	return nil
}

// signsForm reports whether the signature covers fields of a form or is one of them.
func (s *Sender) signsForm() bool {
	return strings.Contains(s.Scheme.Content, "_form}") || strings.Contains(s.Scheme.Content, "{form:") ||
		strings.HasPrefix(s.Scheme.At, "form:")
}

// addFields adds the document's texts to a form, because a body is either a form or a document.
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

// set puts value at path into node and creates missing parents. The path has the syntax of package
// locate.
func set(node any, path string, value any) (any, error) {
	p, err := locate.ParsePath(path)
	if err != nil {
		return nil, err
	}
	out, ok := setAt(node, p.Steps(), value)
	if !ok {
		return nil, fmt.Errorf("one field of the event is at %q, another one above it", path)
	}
	return out, nil
}

// setAt reports false if a value of another kind is in the way.
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
	case string: // of an XML element that gets an attribute
		if strings.HasPrefix(steps[0], attribute) {
			return setMember(map[string]any{textBeside: node}, steps, value)
		}
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

// maxIndex limits the arrays that a path can create.
const maxIndex = 100

// encodeXML encodes a document as XML: the members of an object are elements with their names, an
// array repeats its element.
func encodeXML(doc any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("the event's fields do not name an element of an XML document")
	}
	for name, value := range root { // the other member is the root element; the nonce moves into it
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

// Names from package provider's reading of XML: attributes of an element, and text beside them.
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
	_ = xml.EscapeText(b, []byte(text)) // a buffer never fails
}
