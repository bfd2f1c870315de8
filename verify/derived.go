package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// appendDerived appends a content that only one provider uses.
func (p *part) appendDerived(dst []byte, req *Request, s *signed) ([]byte, error) {
	switch p.kind {
	case partSNS:
		return appendSNS(dst, req.Body)
	case partSignedHeaders:
		return appendSignedHeaders(dst, req)
	case partMercadoPago:
		return appendMercadoPago(dst, req, s)
	}
	source := string(locate.Unmarked(req.Body))
	if p.kind == partSortedQuery || p.from != nil && p.from.ref.Kind == locate.Query {
		source = req.RawQuery
	}
	fields, err := []field(nil), error(nil)
	if p.kind == partVonageParams && p.from != nil && p.from.json != nil && isObject(req.Body) {
		fields, err = parseMembers(req.Body)
	} else {
		fields, err = parseFields(source)
	}
	if err != nil {
		return nil, err
	}
	if p.from != nil {
		fields = slices.DeleteFunc(fields, func(f field) bool { return f.name == p.from.ref.Name })
	}
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	switch p.kind {
	case partSortedForm:
		return appendSortedForm(dst, fields), nil
	case partSortedQuery:
		return appendSortedQuery(dst, fields), nil
	case partPHPForm:
		return appendPHP(dst, fields)
	default: // partVonageParams
		return appendVonage(dst, fields)
	}
}

// appendSortedForm appends each name followed by its value, sorted by name and then by value, each
// pair once. This is Twilio's form (twilio-go, client/request_validator.go), and Mandrill's if no
// field repeats.
func appendSortedForm(dst []byte, fields []field) []byte {
	slices.SortFunc(fields, func(a, b field) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.value, b.value))
	})
	for _, f := range slices.Compact(fields) {
		dst = append(append(dst, f.name...), f.value...)
	}
	return dst
}

// appendSortedQuery appends the parameters sorted by name, and escaped as by url.Values.Encode,
// like MessageBird's libraries.
func appendSortedQuery(dst []byte, fields []field) []byte {
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = append(dst, url.QueryEscape(f.name)+"="+url.QueryEscape(f.value)...)
	}
	return dst
}

// appendPHP appends the fields as PHP's serialize writes an array of strings, with lengths in bytes
// (Paddle Classic). A repeated field is an error.
func appendPHP(dst []byte, fields []field) ([]byte, error) {
	dst = fmt.Appendf(dst, "a:%d:{", len(fields))
	for i, f := range fields {
		if i > 0 && fields[i-1].name == f.name {
			return nil, fmt.Errorf("%w: a field of the form", ErrRepeated)
		}
		dst = fmt.Appendf(dst, "s:%d:\"%s\";s:%d:\"%s\";", len(f.name), f.name, len(f.value), f.value)
	}
	return append(dst, '}'), nil
}

// appendVonage appends "&name=value" for each parameter, sorted by name, with '&' and '=' in values
// replaced by '_' (vonage-go-sdk, npm:nexmo@2.9.1, and Vonage's documentation of signed messages).
func appendVonage(dst []byte, fields []field) ([]byte, error) {
	for i, f := range fields {
		if i > 0 && fields[i-1].name == f.name {
			return nil, fmt.Errorf("%w: a parameter", ErrRepeated)
		}
		if strings.ContainsAny(f.name, "&=") {
			return nil, fmt.Errorf("%w: a parameter's name has a '&' or '='", ErrMalformed)
		}
		dst = append(dst, "&"+f.name+"="+vonageValue.Replace(f.value)...)
	}
	return dst, nil
}

var vonageValue = strings.NewReplacer("&", "_", "=", "_")

// hubSpotURL undoes exactly the escapes that HubSpot's description of its signature v3 lists.
var hubSpotURL = strings.NewReplacer(
	"%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$",
	"%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";",
	"%3a", ":", "%2f", "/", "%3f", "?", "%2a", "*", "%2c", ",", "%3b", ";",
)

// snsFields are the members that Amazon SNS signs, in signing order; absent ones are left out (AWS
// SDK for Go, and the SNS developer guide, "Verifying the signatures of Amazon SNS messages").
var snsFields = []string{"Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}

func snsField(name string) bool { return slices.Contains(snsFields, name) }

var snsPaths = func() []locate.Path {
	paths := make([]locate.Path, len(snsFields))
	for i, name := range snsFields {
		paths[i], _ = locate.ParsePath(name) // a plain name is a valid path
	}
	return paths
}()

// appendSNS appends "name\nvalue\n" for each member. Only the first may hold a line break:
// otherwise part of one member's text could pass as further members, and every customer of Amazon
// can have text of their choice signed.
func appendSNS(dst, body []byte) ([]byte, error) {
	texts, err := locate.Texts(body, snsPaths...)
	if err != nil {
		return nil, fmt.Errorf("%w: the body is not a message of SNS", ErrMalformed)
	}
	for i, t := range texts {
		name := snsFields[i]
		required := name != "Subject" && name != "SubscribeURL" && name != "Token"
		switch {
		case !t.Present && required:
			return nil, fmt.Errorf("%w: body:%s", ErrMissing, name)
		case !t.Present:
			continue
		case i > 0 && strings.ContainsAny(t.Text, "\r\n"):
			return nil, fmt.Errorf("%w: body:%s has a line break", ErrMalformed, name)
		}
		dst = append(append(dst, name...), '\n')
		dst = append(append(dst, t.Text...), '\n')
	}
	return dst, nil
}

// The Contentful headers with the list of signed headers and the time.
const (
	contentfulList = "X-Contentful-Signed-Headers"
	contentfulTime = "X-Contentful-Timestamp"
	maxListed      = 64
)

// appendSignedHeaders appends "name:value" for each listed header, joined by ';', in the order of
// the list (node-apps-toolkit of Contentful). The list must name itself and the time; otherwise
// they would not be signed.
func appendSignedHeaders(dst []byte, req *Request) ([]byte, error) {
	list, err := single(req.Header, contentfulList)
	if err != nil {
		return nil, err
	}
	names := strings.Split(list, ",")
	if len(names) > maxListed {
		return nil, fmt.Errorf("%w: header %s lists more than %d headers", ErrMalformed, contentfulList, maxListed)
	}
	for i, name := range names {
		names[i] = strings.ToLower(strings.TrimSpace(name))
	}
	if !slices.Contains(names, strings.ToLower(contentfulList)) || !slices.Contains(names, strings.ToLower(contentfulTime)) {
		return nil, fmt.Errorf("%w: header %s does not list itself and %s", ErrMalformed, contentfulList, contentfulTime)
	}
	for i, name := range names {
		if !locate.ValidHeaderName(name) || slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%w: header %s is not a list of headers", ErrMalformed, contentfulList)
		}
		values := req.Header.Values(name)
		if len(values) != 1 {
			return nil, fmt.Errorf("%w: a header that %s lists does not occur exactly once", ErrMalformed, contentfulList)
		}
		if i > 0 {
			dst = append(dst, ';')
		}
		dst = append(dst, name+":"+strings.TrimSpace(values[0])...)
	}
	return dst, nil
}

// appendPathQueryEscaped appends the path and query as Contentful signs them: it escapes their escapes
// once more, and the query twice (npm:@contentful/node-apps-toolkit@3.16.1, getNormalizedEncodedURI). Contentful signs nothing after a second '?', so it is refused.
func appendPathQueryEscaped(dst []byte, u string) ([]byte, error) {
	path, query, _ := strings.Cut(pathQuery(u), "?")
	if strings.Contains(query, "?") {
		return nil, fmt.Errorf("%w: the query has a '?', and the part after it is not signed", ErrMalformed)
	}
	dst = appendEscaped(dst, path, uriMarks)
	if query != "" {
		dst = appendEscaped(append(dst, '?'), string(appendEscaped(nil, query, componentMarks)), uriMarks)
	}
	return dst, nil
}

// The characters besides letters and digits that JavaScript's encodeURIComponent and encodeURI do
// not escape (ECMA-262, section 19.2.6).
const (
	componentMarks = "-_.!~*'()"
	uriMarks       = componentMarks + ";/?:@&=+$,#"
)

// appendEscaped appends s with all bytes escaped, except for letters, digits and marks.
func appendEscaped(dst []byte, s, marks string) []byte {
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(marks, c) >= 0 {
			dst = append(dst, c)
		} else {
			dst = fmt.Appendf(dst, "%%%02X", c)
		}
	}
	return dst
}

// appendQSH appends the hash of method, path and query in the tokens of Atlassian Connect
// (atlassian-jwt, "query string hash").
func appendQSH(dst []byte, method, u string) ([]byte, error) {
	path, query, _ := strings.Cut(pathQuery(u), "?")
	fields, err := parseFields(query)
	if err != nil {
		return nil, err
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	values := map[string][]string{}
	var names []string
	for _, f := range fields {
		if f.name == "jwt" {
			continue
		}
		name := escapeRFC3986(f.name)
		if _, seen := values[name]; !seen {
			names = append(names, name)
		}
		values[name] = append(values[name], escapeRFC3986(f.value))
	}
	slices.Sort(names)
	var canonical []string
	for _, name := range names {
		slices.Sort(values[name])
		canonical = append(canonical, name+"="+strings.Join(values[name], ","))
	}
	path = strings.ReplaceAll(path, "&", "%26")
	sum := sha256.Sum256([]byte(strings.ToUpper(method) + "&" + path + "&" + strings.Join(canonical, "&")))
	return hex.AppendEncode(dst, sum[:]), nil
}

// escapeRFC3986 escapes all but the unreserved characters of RFC 3986.
func escapeRFC3986(s string) string {
	return strings.NewReplacer("+", "%20", "*", "%2A", "%7E", "~").Replace(url.QueryEscape(s))
}

// appendMercadoPago appends Mercado Pago's manifest, which omits segments without a value.
func appendMercadoPago(dst []byte, req *Request, s *signed) ([]byte, error) {
	id, found, err := fieldValue(req.RawQuery, "data.id")
	switch {
	case err != nil:
		return nil, err
	case found > 1:
		return nil, fmt.Errorf("%w: query:data.id", ErrRepeated)
	case strings.Contains(id, ";"):
		return nil, fmt.Errorf("%w: query:data.id holds the character that ends it in the signed content", ErrMalformed)
	case id != "" && s.documented:
		dst = append(dst, "id:"+strings.ToLower(id)+";"...)
	case id != "":
		dst = append(dst, "id:"+id+";"...)
	}
	if len(req.Header["X-Request-Id"]) > 0 {
		request, err := single(req.Header, "X-Request-Id")
		if err != nil {
			return nil, err
		}
		if strings.Contains(request, ";") {
			return nil, fmt.Errorf("%w: header X-Request-Id holds the character that ends it in the signed content", ErrMalformed)
		}
		dst = append(dst, "request-id:"+request+";"...)
	}
	return append(dst, "ts:"+s.time+";"...), nil
}
