package provider

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits on XML documents.
const (
	maxXMLDepth = 100     // nested elements
	maxXMLNodes = 100_000 // elements and attributes
	maxXMLAttrs = 256     // attributes of one element
)

// xmlToJSON converts a document to a JSON object whose only member is the root element.
//
// An element becomes an object. Its attributes are members @name, its text is #text, and its child
// elements are members by name, in order of first appearance; a repeated name gives an array. An
// element with only text becomes that text, and an empty element becomes "". Namespace prefixes and
// declarations, comments, and blank text beside elements are dropped. Text is not trimmed.
//
// The result for a document must never change between versions: sums of items are event ids.
//
// It refuses document type declarations, entities other than the five of XML, encodings other than
// UTF-8, and documents beyond the limits.
func xmlToJSON(doc []byte) ([]byte, error) {
	doc = bytes.TrimPrefix(doc, []byte("\ufeff"))
	r := xmlReader{Decoder: xml.NewDecoder(bytes.NewReader(doc))}
	for {
		at := r.InputOffset()
		token, err := r.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && replaced(token) > bytes.Count(doc[at:r.InputOffset()], []byte("\ufffd")) {
			err = xmlFault("an invalid character reference")
		}
		if err == nil {
			err = r.take(token, at == 0)
		}
		if err != nil {
			return nil, xmlError(err)
		}
	}
	if r.root == nil {
		return nil, errors.New("not valid XML: it has no element")
	}
	out := append(appendQuoted([]byte{'{'}, r.root.name), ':')
	return append(r.root.append(out), '}'), nil
}

// replaced counts the characters of a token that encoding/xml may have replaced: it reads &#xD800;
// and the like as U+FFFD.
func replaced(token xml.Token) int {
	n := 0
	switch t := token.(type) {
	case xml.CharData:
		n = bytes.Count(t, []byte("\ufffd"))
	case xml.StartElement:
		for _, a := range t.Attr {
			n += strings.Count(a.Value, "\ufffd")
		}
	}
	return n
}

// xmlError drops the values that errors of encoding/xml quote.
func xmlError(err error) error {
	var fault *xml.SyntaxError
	if errors.As(err, &fault) {
		return fmt.Errorf("not valid XML at line %d", fault.Line)
	}
	if errors.Is(err, errXML) {
		return err
	}
	return errors.New("not valid XML in UTF-8")
}

// errXML marks the faults that this file finds.
var errXML = errors.New("not valid XML")

func xmlFault(why string) error { return fmt.Errorf("%w: %s", errXML, why) }

// xmlElement is an element or an attribute.
type xmlElement struct {
	name     string // with a leading '@' for an attribute
	text     []byte
	children []*xmlElement // attributes first
	elements bool          // children has at least one element
}

type xmlReader struct {
	*xml.Decoder
	root  *xmlElement
	open  []*xmlElement
	nodes int
}

// take handles the next token. first is true at the beginning of the document.
func (r *xmlReader) take(token xml.Token, first bool) error {
	switch t := token.(type) {
	case xml.StartElement:
		return r.start(&t)
	case xml.EndElement:
		r.open = r.open[:len(r.open)-1]
	case xml.CharData:
		if len(r.open) > 0 {
			e := r.open[len(r.open)-1]
			e.text = append(e.text, t...)
		} else if len(bytes.TrimSpace(t)) > 0 {
			return xmlFault("text outside of the root element")
		}
	case xml.Directive:
		return xmlFault("a document type declaration is not accepted")
	case xml.ProcInst:
		if strings.EqualFold(t.Target, "xml") && !first {
			return xmlFault("its declaration is not at the beginning")
		}
	}
	return nil
}

func (r *xmlReader) start(t *xml.StartElement) error {
	e, err := r.node("", t.Name, "")
	if err != nil {
		return err
	}
	if len(t.Attr) > maxXMLAttrs {
		return xmlFault(fmt.Sprintf("an element has more than %d attributes", maxXMLAttrs))
	}
	for i, a := range t.Attr {
		if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
			continue
		}
		if slices.ContainsFunc(t.Attr[:i], func(b xml.Attr) bool { return a.Name == b.Name }) {
			return xmlFault("an attribute occurs twice")
		}
		child, err := r.node("@", a.Name, a.Value)
		if err != nil {
			return err
		}
		e.children = append(e.children, child)
	}
	switch {
	case len(r.open) == maxXMLDepth:
		return xmlFault(fmt.Sprintf("nested more than %d levels deep", maxXMLDepth))
	case len(r.open) > 0:
		parent := r.open[len(r.open)-1]
		parent.children, parent.elements = append(parent.children, e), true
	case r.root != nil:
		return xmlFault("more than one root element")
	default:
		r.root = e
	}
	r.open = append(r.open, e)
	return nil
}

func (r *xmlReader) node(mark string, name xml.Name, text string) (*xmlElement, error) {
	if r.nodes++; r.nodes > maxXMLNodes {
		return nil, xmlFault(fmt.Sprintf("it has more than %d elements and attributes", maxXMLNodes))
	}
	if strings.Contains(name.Local, ":") {
		return nil, xmlFault("a name with two colons")
	}
	return &xmlElement{name: mark + name.Local, text: []byte(text)}, nil
}

// append appends e as JSON.
func (e *xmlElement) append(out []byte) []byte {
	if len(e.children) == 0 {
		return appendQuoted(out, e.text)
	}
	byName := make(map[string][]*xmlElement)
	var names []string
	for _, c := range e.children {
		if byName[c.name] == nil {
			names = append(names, c.name)
		}
		byName[c.name] = append(byName[c.name], c)
	}
	out = append(out, '{')
	if len(e.text) > 0 && !e.elements || len(bytes.TrimSpace(e.text)) > 0 {
		out = append(out, `"#text":`...)
		out = append(appendQuoted(out, e.text), ',')
	}
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendQuoted(out, name), ':')
		out = appendMember(out, byName[name])
	}
	return append(out, '}')
}

func appendMember(out []byte, same []*xmlElement) []byte {
	if len(same) == 1 {
		return same[0].append(out)
	}
	for i, e := range same {
		out = append(out, "[,"[min(i, 1)])
		out = e.append(out)
	}
	return append(out, ']')
}

// appendQuoted appends s as a JSON string. s has no control characters other than those that XML
// allows.
func appendQuoted[T string | []byte](out []byte, s T) []byte {
	out = append(out, '"')
	for _, c := range string(s) {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', byte(c))
		case c < ' ':
			out = append(out, `\u00`...)
			out = append(out, "0123456789abcdef"[c>>4])
			out = append(out, "0123456789abcdef"[c&15])
		default:
			out = utf8.AppendRune(out, c)
		}
	}
	return append(out, '"')
}
