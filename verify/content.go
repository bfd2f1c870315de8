package verify

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// part is one piece of a template.
type part struct {
	kind partKind
	text string      // a literal, a header's canonical name, or another name
	path locate.Path // of {json:...} and {item:...}
	from *place      // the signature's location, which contents made of all fields leave out
	// The literal bytes on the two sides of a value that the sender chooses. The value must not
	// contain them. 0 if there is none.
	before, after byte
	// Set if a value that the sender chooses touches another one, so that the signature does not
	// fix where it begins or ends.
	loose bool
	// Set for {item_free:...}, the one value of a template that may contain the bytes beside it.
	// Its borders stay unambiguous because the other values cannot contain theirs.
	free bool
}

type partKind uint8

const (
	partLiteral partKind = iota
	partBody
	partTimestamp
	partID
	partKID
	partSecret
	partMethod
	partURL
	partURLUnescaped
	partPath
	partPathQuery
	partPathQueryEscaped
	partHeader
	partQuery
	partJSON
	partItem
	partForm
	partSHA256Body
	partSHA256Base64Body
	partSHA256RawBody
	partSHA256URL
	partCRC32Body
	partBase64Body
	partBase64URLBody
	partSortedForm
	partSortedQuery
	partPHPForm
	partSNS
	partSignedHeaders
	partQSH
	partVonageParams
	partMercadoPago
)

// placeholders holds the placeholders without a name, as written in braces.
var placeholders = map[string]partKind{
	"body": partBody, "timestamp": partTimestamp, "id": partID, "kid": partKID, "secret": partSecret, "method": partMethod,
	"url": partURL, "url_unescaped": partURLUnescaped, "path": partPath, "path_query": partPathQuery, "path_query_escaped": partPathQueryEscaped,
	"sha256:body": partSHA256Body, "sha256_base64:body": partSHA256Base64Body, "sha256_raw:body": partSHA256RawBody,
	"sha256:url": partSHA256URL,
	"crc32:body": partCRC32Body, "base64:body": partBase64Body, "base64url:body": partBase64URLBody,
	"sorted_form": partSortedForm, "sorted_query": partSortedQuery, "php_form": partPHPForm, "sns": partSNS,
	"signed_headers": partSignedHeaders, "qsh": partQSH, "vonage_params": partVonageParams, "mercado_pago": partMercadoPago,
}

// named holds the placeholders that are followed by a colon and a name.
var named = map[string]partKind{
	"header": partHeader, "query": partQuery,
	"json": partJSON, "item": partItem, "item_free": partItem, "form": partForm,
}

// needsURL reports whether the part is built from the public URL.
func (p *part) needsURL() bool {
	switch p.kind {
	case partURL, partURLUnescaped, partPath, partPathQuery, partPathQueryEscaped, partSHA256URL, partQSH:
		return true
	}
	return false
}

// chosen reports whether the part is a single value of the request whose text and length the sender
// chooses.
func (p *part) chosen() bool { return p.kind >= partHeader && p.kind <= partForm }

// wholeBody reports whether every change of the body changes the part. For forms, every change of
// the decoded fields.
func (p *part) wholeBody() bool {
	switch p.kind {
	case partBody, partSHA256Body, partSHA256Base64Body, partSHA256RawBody, partBase64Body, partBase64URLBody,
		partSortedForm, partPHPForm, partVonageParams:
		return true
	}
	return false
}

// respelled reports whether different spellings of a body give the same part.
func (p *part) respelled() bool {
	switch p.kind {
	case partSortedForm, partPHPForm, partVonageParams, partForm:
		return true
	}
	return false
}

// fixes reports whether the part has one form or length, so that no byte can move across its
// border. A timestamp counts: it has one strict form, and a moved byte takes it out of the
// tolerance.
func (p *part) fixes() bool {
	switch p.kind {
	case partTimestamp, partSecret, partSHA256Body, partSHA256Base64Body, partSHA256RawBody, partSHA256URL:
		return true
	}
	return false
}

// template parses a template such as Scheme.Content, and reports faults under the name field.
func (c *compiler) template(field, text string) []part {
	var parts []part
	for text != "" {
		open := strings.IndexAny(text, "{}")
		if open < 0 {
			open = len(text)
		}
		p, err := part{}, error(nil)
		if open > 0 {
			p.text, err = literal(text[:open])
			text = text[open:]
		} else {
			end := strings.IndexByte(text, '}')
			if text[0] == '}' || end < 0 {
				c.fault(field, "'%c' has no counterpart", text[0])
				return nil
			}
			p, err = c.placeholder(text[1:end])
			text = text[end+1:]
		}
		if err != nil {
			c.fault(field, "%s", err)
			return nil
		}
		parts = appendParsed(parts, p)
	}
	free := func(p part) bool { return p.free }
	if i := slices.IndexFunc(parts, free); i >= 0 && slices.ContainsFunc(parts[i+1:], free) {
		c.fault(field, "only one value may be {item_free:...}")
	}
	guard(parts)
	return parts
}

// appendParsed appends p, and joins neighbouring literals. Parameters are literals too.
func appendParsed(parts []part, p part) []part {
	last := len(parts) - 1
	switch {
	case p.kind != partLiteral:
		return append(parts, p)
	case p.text == "":
		return parts
	case last >= 0 && parts[last].kind == partLiteral:
		parts[last].text += p.text
		return parts
	}
	return append(parts, p)
}

func literal(s string) (string, error) {
	rest := strings.ReplaceAll(s, `\n`, "\n")
	if strings.Contains(rest, `\`) {
		return "", errors.New(`a '\' must be followed by 'n', which stands for a line feed`)
	}
	return rest, nil
}

func (c *compiler) placeholder(text string) (part, error) {
	if kind, ok := placeholders[text]; ok {
		return part{kind: kind, from: c.place}, nil
	}
	word, name, _ := strings.Cut(text, ":")
	if word == "param" {
		for _, p := range c.params {
			if p.Name == name {
				return part{text: c.values[name]}, nil
			}
		}
		return part{}, fmt.Errorf("{%s} is not one of the scheme's params", text)
	}
	kind, ok := named[word]
	if !ok || name == "" {
		return part{}, fmt.Errorf("{%s} is unknown: use {body}, {timestamp}, {url}, {method}, {header:Name} or another "+
			"placeholder that verify.Scheme lists", text)
	}
	p := part{kind: kind, text: name, free: word == "item_free"}
	var err error
	switch kind {
	case partHeader:
		if !locate.ValidHeaderName(name) {
			err = fmt.Errorf("{%s} does not name a header", text)
		}
		p.text = http.CanonicalHeaderKey(name)
	case partJSON, partItem:
		if p.path, err = locate.ParsePath(name); err != nil {
			err = fmt.Errorf("{%s}: %w", text, err)
		}
	}
	return p, err
}

// lacks reports whether text has a {param:name} whose parameter is not set.
func (c *compiler) lacks(text string) bool {
	for _, p := range c.params {
		if c.values[p.Name] == "" && strings.Contains(text, "{param:"+p.Name+"}") {
			return true
		}
	}
	return false
}

// guard sets before, after and loose of the values among parts.
func guard(parts []part) {
	for i := range parts {
		p := &parts[i]
		if !p.chosen() {
			continue
		}
		if i > 0 {
			if prev := &parts[i-1]; prev.kind == partLiteral {
				if !p.free {
					p.before = prev.text[len(prev.text)-1]
				}
			} else {
				p.loose = p.loose || !prev.fixes()
			}
		}
		if i < len(parts)-1 {
			if next := &parts[i+1]; next.kind == partLiteral {
				if !p.free {
					p.after = next.text[0]
				}
			} else {
				p.loose = p.loose || !next.fixes()
			}
		}
	}
}

func has(parts []part, kinds ...partKind) bool {
	for i := range parts {
		for _, kind := range kinds {
			if parts[i].kind == kind {
				return true
			}
		}
	}
	return false
}

func anyPart(parts []part, is func(*part) bool) bool {
	for i := range parts {
		if is(&parts[i]) {
			return true
		}
	}
	return false
}

// covers reports whether a signature over parts covers the value at ref. A value is not covered if
// it has several spellings with the same signature, or no fixed border to its neighbour.
func covers(parts []part, ref locate.Ref) bool {
	return anyPart(parts, func(p *part) bool {
		switch ref.Kind {
		case locate.Body:
			return p.wholeBody() && !p.respelled() || p.fieldOf(ref)
		case locate.Item, locate.Outer: // these derive from a field of the form, if the form is signed
			return p.wholeBody() || p.fieldOf(ref)
		case locate.Form:
			return p.wholeBody() && p.kind != partSortedForm && p.kind != partVonageParams || p.kind == partForm && p.is(ref)
		case locate.Header:
			return p.kind == partHeader && p.is(ref)
		case locate.Query:
			return p.kind == partSortedQuery || p.kind == partQSH || p.kind == partSHA256URL ||
				p.kind == partQuery && p.is(ref) || p.wholeQuery() && !runsInto(parts, p)
		case locate.Const:
			return true
		case locate.SHA256:
			switch ref.In() {
			case locate.Form:
				return covers([]part{*p}, locate.Ref{Kind: locate.Form, Name: ref.SummedField()})
			case locate.Body: // a form that is signed sorted may arrive in any order
				return p.wholeBody() && !p.respelled()
			}
			return p.wholeBody()
		}
		return false
	})
}

// is reports whether the part is exactly the value at ref.
func (p *part) is(ref locate.Ref) bool { return p.text == ref.Name && !p.loose }

// fieldOf reports whether the part holds the field of the body or item at ref.
func (p *part) fieldOf(ref locate.Ref) bool {
	switch p.kind {
	case partJSON:
		return ref.Kind == locate.Body && p.is(ref)
	case partItem:
		return ref.Kind == locate.Item && p.is(ref)
	case partSNS:
		return ref.Kind == locate.Body && snsField(ref.Name)
	}
	return false
}

func (p *part) wholeQuery() bool {
	return p.kind == partURL || p.kind == partURLUnescaped || p.kind == partPathQuery || p.kind == partPathQueryEscaped
}

// runsInto reports whether the part after p can take bytes from the query at the end of p. A JSON
// body cannot; see publicURL.
func runsInto(parts []part, p *part) bool {
	for i := range parts {
		if &parts[i] == p && i < len(parts)-1 {
			next := &parts[i+1]
			return next.chosen() || next.kind >= partSortedForm
		}
	}
	return false
}

// render returns the text of a template for one request.
func render(parts []part, req *Request, s *signed) ([]byte, error) {
	dst := make([]byte, 0, len(req.Body)+len(s.id)+len(s.time)+64)
	var err error
	for i := range parts {
		if dst, err = parts[i].append(dst, req, s); err != nil {
			return nil, err
		}
	}
	return dst, nil
}
