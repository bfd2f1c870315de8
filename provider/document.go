package provider

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// documentRule is a compiled EventRules.Document.
type documentRule struct {
	kind  string
	field string // for the kinds form and form_xml
}

// Kinds of EventRules.Document: the part before the ':'.
const (
	DocumentForm    = "form"
	DocumentXML     = "xml"
	DocumentFormXML = "form_xml"
	DocumentJWT     = "jwt"
)

// parseDocument compiles a rule. It returns nil for "": the body is the document.
func parseDocument(rule string) (*documentRule, error) {
	if rule == "" {
		return nil, nil
	}
	kind, field, named := strings.Cut(rule, ":")
	d := &documentRule{kind: kind, field: field}
	switch kind {
	case DocumentForm, DocumentFormXML:
		if field == "" {
			return nil, fmt.Errorf("%q names no field: write form:field or form_xml:field", rule)
		}
	case DocumentXML, DocumentJWT:
		if named {
			return nil, fmt.Errorf("%q reads the whole body: leave out the ':' and the name", rule)
		}
	default:
		return nil, fmt.Errorf("%q is unknown: use form:field, xml, form_xml:field or jwt", rule)
	}
	return d, nil
}

func (d *documentRule) isForm() bool { return d.kind == DocumentForm || d.kind == DocumentFormXML }

func (d *documentRule) isXML() bool { return d.kind == DocumentXML || d.kind == DocumentFormXML }

// read makes the document from a body.
func (d *documentRule) read(body []byte) *locate.Document {
	doc := &locate.Document{XML: d.isXML()}
	if d.isForm() {
		value, err := locate.FormValue(body, d.field)
		if err != nil {
			return fail(doc, err)
		}
		body = []byte(value)
	}
	var err error
	switch d.kind {
	case DocumentForm:
		doc.JSON = body
	case DocumentXML:
		doc.JSON, err = xmlToJSON(body)
	case DocumentFormXML:
		// The encoding has a line break every 60 characters; the decoder skips them.
		if body, err = base64.StdEncoding.Strict().DecodeString(string(body)); err == nil {
			doc.JSON, err = xmlToJSON(body)
		} else {
			err = errors.New("not valid base64")
		}
	case DocumentJWT:
		doc.JSON, err = claims(body)
	}
	if err != nil {
		return fail(doc, err)
	}
	return doc
}

// fail records the reason why a document could not be read. The error matches none of package
// locate's errors, which are about a location in a document.
func fail(doc *locate.Document, err error) *locate.Document {
	doc.Err = fmt.Errorf("the document cannot be read: %s", err)
	return doc
}

// claims returns the claims of a JWT in compact form (RFC 7519, section 7.1), and replaces texts
// that hold JSON by that JSON. It does not check the signature.
func claims(body []byte) ([]byte, error) {
	pieces := bytes.Split(bytes.TrimSpace(body), []byte{'.'})
	if len(pieces) != 3 {
		return nil, errors.New("not a JWT of three parts")
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(string(pieces[1]))
	if err != nil || bytes.ContainsAny(pieces[1], "\r\n") {
		return nil, errors.New("the claims of the JWT are not valid base64url")
	}
	return locate.OpenTexts(payload)
}
