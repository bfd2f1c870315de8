package verify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// place is a single location of a request, which can be read and, for Sign, written.
type place struct {
	ref  locate.Ref
	path locate.Path // for body and item
	json *place      // replaces a place in a form if the body is JSON; nil if it never is
}

// of returns the place in the body of req.
func (p *place) of(req *Request) *place {
	if p.json != nil && isObject(req.Body) {
		return p.json
	}
	return p
}

// isObject reports whether body begins like a JSON object, which no form does; see parseFields.
func isObject(body []byte) bool {
	body = bytes.TrimLeft(locate.Unmarked(body), " \t\r\n")
	return len(body) > 0 && body[0] == '{'
}

// parsePlace parses a location of one of kinds. "body:" is the body itself.
func parsePlace(text string, kinds ...locate.Kind) (*place, error) {
	if text == "body:" {
		return &place{ref: locate.Ref{Kind: locate.Body}}, nil
	}
	e, err := locate.Parse(text)
	if err != nil {
		return nil, err
	}
	refs := e.Refs()
	if len(refs) != 1 {
		return nil, fmt.Errorf("%q is not a single location", text)
	}
	p := &place{ref: refs[0]}
	if p.ref.Each || p.ref.Optional {
		return nil, fmt.Errorf("%q is not a single location", text)
	}
	for _, kind := range kinds {
		if p.ref.Kind != kind {
			continue
		}
		if kind == locate.Body || kind == locate.Item {
			p.path, err = locate.ParsePath(p.ref.Name)
		}
		return p, err
	}
	return nil, fmt.Errorf("a location of the kind of %q cannot be used here", text)
}

// samePlace reports whether a and b are the same location. Their handling of absent values may
// differ.
func samePlace(a, b locate.Ref) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Key == b.Key }

// single returns the value of a header, which must occur exactly once and not be blank.
func single(h http.Header, name string) (string, error) {
	values := h[name]
	switch {
	case len(values) > 1:
		return "", fmt.Errorf("%w: header %s", ErrRepeated, name)
	case len(values) == 0:
		return "", fmt.Errorf("%w: header %s", ErrMissing, name)
	case strings.TrimSpace(values[0]) == "":
		return "", fmt.Errorf("%w: header %s is empty", ErrMissing, name)
	}
	return values[0], nil
}

// read returns the text at p, which must occur exactly once and not be blank.
func (p *place) read(req *Request, item []byte) (string, error) {
	var text string
	var found int
	var err error
	switch p.ref.Kind {
	case locate.Header:
		return p.header(req.Header)
	case locate.Form:
		if locate.IsMultipart(req.Body) {
			text, found, err = locate.MultipartField(req.Body, p.ref.Name)
		} else {
			text, found, err = fieldValue(string(locate.Unmarked(req.Body)), p.ref.Name)
		}
	case locate.Query:
		text, found, err = fieldValue(req.RawQuery, p.ref.Name)
	case locate.Item:
		text, found, err = jsonText(item, p.path)
	default:
		if p.ref.Name == "" {
			text, found = string(req.Body), 1
		} else {
			text, found, err = jsonText(req.Body, p.path)
		}
	}
	switch {
	case err != nil:
		why := err.Error() // names no value
		if _, inner, ok := strings.Cut(why, ErrMalformed.Error()+": "); ok {
			why = inner
		}
		return "", fmt.Errorf("%w: %s: %s", ErrMalformed, p.ref, why)
	case found > 1:
		return "", fmt.Errorf("%w: %s", ErrRepeated, p.ref)
	case found == 0 || strings.TrimSpace(text) == "":
		return "", fmt.Errorf("%w: %s", ErrMissing, p.ref)
	}
	return text, nil
}

func (p *place) header(h http.Header) (string, error) {
	value, err := single(h, p.ref.Name)
	if err != nil || p.ref.Key == "" {
		return value, err
	}
	text, found, ok := locate.PairValue(value, p.ref.Key)
	switch {
	case !ok:
		return "", fmt.Errorf("%w: header %s is not a list of key=value", ErrMalformed, p.ref.Name)
	case found > 1:
		return "", fmt.Errorf("%w: key %s in header %s", ErrRepeated, p.ref.Key, p.ref.Name)
	case text == "":
		return "", fmt.Errorf("%w: key %s in header %s", ErrMissing, p.ref.Key, p.ref.Name)
	}
	return text, nil
}

// jsonText returns the text at path in a document. found is 0 if it is absent or null, else 1.
func jsonText(doc []byte, path locate.Path) (text string, found int, err error) {
	texts, err := locate.Texts(doc, path)
	if err != nil || !texts[0].Present {
		return "", 0, err
	}
	return texts[0].Text, 1, nil
}

// write puts text at p, into req or into item. It returns the item.
func (p *place) write(req *Request, item []byte, text string) ([]byte, error) {
	var err error
	switch p.ref.Kind {
	case locate.Header:
		if p.ref.Key != "" {
			return item, fmt.Errorf("key %s in header %s cannot be set: the other keys of the header are unknown", p.ref.Key, p.ref.Name)
		}
		req.Header.Set(p.ref.Name, text)
	case locate.Form:
		if locate.IsMultipart(req.Body) {
			return item, errors.New("a multipart form cannot be signed: give the fields urlencoded")
		}
		req.Body = []byte(setField(string(req.Body), p.ref.Name, text))
	case locate.Query:
		base, query, has := strings.Cut(req.URL, "?")
		if has {
			req.URL = base + "?" + setField(query, p.ref.Name, text)
		}
		req.RawQuery = setField(req.RawQuery, p.ref.Name, text)
	case locate.Item:
		return locate.SetText(item, p.path, text)
	case locate.Body:
		if p.ref.Name == "" {
			return item, errors.New("the body itself cannot be set")
		}
		req.Body, err = locate.SetText(req.Body, p.path, text)
	default:
		err = fmt.Errorf("%s cannot be set", p.ref)
	}
	return item, err
}

// maxFields bounds the number of fields in a signed form or query.
const maxFields = 1000

// field is one decoded field of a form or parameter of a query.
type field struct{ name, value string }

// parseFields parses an urlencoded form or query.
//
// It refuses bytes that every sender escapes. With them a signed form could at the same time be
// another document, such as JSON or gzip, and be parsed as that later.
func parseFields(s string) ([]field, error) {
	if !urlSafe(s) {
		return nil, fmt.Errorf("%w: not an urlencoded form", ErrMalformed)
	}
	var fields []field
	for element := range strings.SplitSeq(s, "&") {
		if element == "" {
			continue
		}
		if len(fields) == maxFields {
			return nil, fmt.Errorf("%w: more than %d fields", ErrMalformed, maxFields)
		}
		rawName, rawValue, _ := strings.Cut(element, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return nil, fmt.Errorf("%w: not an urlencoded form", ErrMalformed)
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return nil, fmt.Errorf("%w: not an urlencoded form", ErrMalformed)
		}
		fields = append(fields, field{name, value})
	}
	return fields, nil
}

// parseMembers parses a JSON object whose values are texts.
func parseMembers(body []byte) ([]field, error) {
	members, err := object(locate.Unmarked(body))
	if err != nil {
		return nil, fmt.Errorf("%w: the body is not a JSON object with unique members", ErrMalformed)
	}
	if len(members) > maxFields {
		return nil, fmt.Errorf("%w: more than %d fields", ErrMalformed, maxFields)
	}
	fields := make([]field, 0, len(members))
	for name, raw := range members {
		var value string
		if raw[0] != '"' || json.Unmarshal(raw, &value) != nil {
			return nil, fmt.Errorf("%w: a field of the body is not a text", ErrMalformed)
		}
		fields = append(fields, field{name, value})
	}
	return fields, nil
}

// fieldValue returns the value of a field, and the number of times it occurs.
func fieldValue(s, name string) (value string, found int, err error) {
	fields, err := parseFields(s)
	for _, f := range fields {
		if f.name == name {
			value = f.value
			found++
		}
	}
	return value, found, err
}

// setField returns s with the field removed, and appended with the new value.
func setField(s, name, value string) string {
	var kept []string
	for element := range strings.SplitSeq(s, "&") {
		rawName, _, _ := strings.Cut(element, "=")
		if n, err := url.QueryUnescape(rawName); element != "" && (err != nil || n != name) {
			kept = append(kept, element)
		}
	}
	return strings.Join(append(kept, url.QueryEscape(name)+"="+url.QueryEscape(value)), "&")
}

// publicURL returns the URL that the sender called. If the public URL has a query of its own, the request
// must have its parameters, among others in any order.
func publicURL(req *Request) (string, error) {
	if req.URL == "" {
		return "", ErrNoURL
	}
	query := req.RawQuery
	// Otherwise a piece of a JSON body that is signed next to the URL could pass as a piece of the
	// query.
	if !urlSafe(query) {
		return "", fmt.Errorf("%w: the query has a character that must be escaped", ErrMalformed)
	}
	base, own, _ := strings.Cut(req.URL, "?")
	if own == query {
		return req.URL, nil
	}
	if own != "" && !holdsParameters(query, own) {
		return "", fmt.Errorf("%w: the query lacks a parameter of the public URL, or has it with another value", ErrMalformed)
	}
	return base + "?" + query, nil
}

// holdsParameters reports whether query has each parameter of own, with the same values and no others.
func holdsParameters(query, own string) bool {
	wanted, err1 := parseFields(own)
	fields, err2 := parseFields(query)
	if err1 != nil || err2 != nil {
		return false
	}
	named := func(f field) bool { return slices.ContainsFunc(wanted, func(w field) bool { return w.name == f.name }) }
	fields = slices.DeleteFunc(fields, func(f field) bool { return !named(f) })
	order := func(a, b field) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.value, b.value)) }
	slices.SortFunc(fields, order)
	slices.SortFunc(wanted, order)
	return slices.Equal(fields, wanted)
}

// urlSafe reports whether s, a query or form, holds no byte that every sender escapes.
func urlSafe(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '"' || c == '{' || c == '}' || c == '<' || c == '>' {
			return false
		}
	}
	return true
}

// pathQuery returns the part of a URL after the host: at least "/".
func pathQuery(u string) string {
	_, rest, _ := strings.Cut(u, "://")
	i := strings.IndexAny(rest, "/?")
	switch {
	case i < 0:
		return "/"
	case rest[i] == '?':
		return "/" + rest[i:]
	}
	return rest[i:]
}

// otherPort returns the URL without its port, or with the default port of its scheme if it has
// none.
func otherPort(u string) string {
	scheme, rest, _ := strings.Cut(u, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, rest := rest[:end], rest[end:]
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return scheme + "://" + host[:i] + rest
	}
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	return scheme + "://" + host + port + rest
}
