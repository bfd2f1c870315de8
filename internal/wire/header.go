package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/headers"
)

// VisibleHeader returns the form of h that is stored and shown. It replaces the headers named in
// hidden by "<secret>", and every header that contains one of secrets; see Secrets. Bytes that are
// not UTF-8 are read as ISO 8859-1, as HTTP/1.0 defined them. h stays as it is; if nothing in it changes,
// it is the result.
func VisibleHeader(h http.Header, hidden, secrets []string) http.Header {
	out, cloned := h, false
	for name, values := range h {
		instead := visibleInstead(name, values, hidden, secrets)
		if instead == nil {
			continue
		}
		if !cloned {
			out, cloned = maps.Clone(h), true
		}
		out[name] = instead
	}
	return out
}

// visibleInstead returns the values that VisibleHeader shows instead of those of a header, or nil if it
// shows them as they are.
func visibleInstead(name string, values, hidden, secrets []string) []string {
	repeats := func(v string) bool {
		return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(v, s) })
	}
	if slices.ContainsFunc(hidden, func(s string) bool { return strings.EqualFold(s, name) }) || slices.ContainsFunc(values, repeats) {
		return []string{headers.Secret}
	}
	if !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
		return nil
	}
	values = slices.Clone(values)
	for i, v := range values {
		if !utf8.ValidString(v) {
			values[i] = latin1(v)
		}
	}
	return values
}

// minCopied is the least length of a secret that is looked for anywhere in a header, in bytes. A shorter
// one might be there by chance.
const minCopied = 8

// Secrets returns the credentials of a request, for finding the copies that a proxy put into other headers:
// the whole query string, because any provider may send one there, and the secret of the source, which is
// in headers or in the parameter param of the query.
func Secrets(h http.Header, rawQuery string, headers []string, param string) []string {
	var texts []string
	add := func(value string) {
		if len(value) >= minCopied {
			texts = append(texts, value)
		}
	}
	for _, name := range headers {
		for _, value := range h[name] {
			add(value)
			if _, rest, ok := strings.Cut(value, " "); ok {
				add(strings.TrimLeft(rest, " ")) // without "Bearer "
			}
		}
	}
	if rawQuery == "" {
		return texts
	}
	if param != "" {
		for pair := range strings.SplitSeq(rawQuery, "&") {
			escaped, value, _ := strings.Cut(pair, "=")
			if name, err := url.QueryUnescape(escaped); err != nil || name != param {
				continue
			}
			add(value)
			if plain, err := url.QueryUnescape(value); err == nil && plain != value {
				add(plain)
			}
		}
	}
	return append(texts, "?"+rawQuery)
}

func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// EncodeHeader returns h in its stored form: a JSON object from name to values, sorted by name.
// Package encoding/json writes the same bytes and takes ten times as long.
func EncodeHeader(h http.Header) []byte {
	var few [16]string // enough for most requests
	names, size := few[:0], len("{}")
	for name, values := range h {
		names = append(names, name)
		size += len(name) + len(`"":[],`)
		for _, value := range values {
			size += len(value) + len(`"",`)
		}
	}
	slices.Sort(names)
	out := append(make([]byte, 0, size), '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(AppendJSON(out, name), ":["...)
		for j, value := range h[name] {
			if j > 0 {
				out = append(out, ',')
			}
			out = AppendJSON(out, value)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// AppendJSON appends text as a JSON string, without escaping '<', '>' and '&'.
func AppendJSON(to []byte, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendEscaped(to, text)
		}
	}
	return append(append(append(to, '"'), text...), '"')
}

func appendEscaped(to []byte, text string) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return append(to, strings.TrimSuffix(b.String(), "\n")...)
}

// shownHeaders are the headers whose values a refused request shows. No provider sends a credential
// in them.
var shownHeaders = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Expect", "Forwarded",
	"Transfer-Encoding", "User-Agent", "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-Ip",
}

// maxShown bounds one value of a refused request, in bytes.
const maxShown = 1024

// RefusedHeader returns the stored form of the headers of a refused request, in at most limit bytes:
// the headers that do not fit are left out, in the order of their names. Any value may be a secret, so
// it shows the values of shown and a few other headers, and only the lengths of the rest ("<64 bytes>").
func RefusedHeader(h http.Header, shown []string, limit int) []byte {
	out := http.Header{}
	size := len("{}")
	for _, name := range slices.Sorted(maps.Keys(h)) {
		// More values than that say nothing more.
		values := slices.Clone(h[name][:min(len(h[name]), 10)])
		for i, v := range values {
			switch {
			case !slices.Contains(shownHeaders, name) && !slices.Contains(shown, name):
				values[i] = fmt.Sprintf("<%d bytes>", len(v))
			case len(v) > maxShown:
				values[i] = strings.ToValidUTF8(v[:maxShown], "\ufffd") + "…"
			default:
				values[i] = strings.ToValidUTF8(v, "\ufffd")
			}
		}
		one := http.Header{name: values}
		if size += len(EncodeHeader(one)); size > limit {
			break
		}
		out[name] = values
	}
	return EncodeHeader(out)
}

// ParseHeader reads the stored form that EncodeHeader writes.
func ParseHeader(stored []byte) (http.Header, error) {
	if len(stored) == 0 {
		return http.Header{}, nil
	}
	if h, ok := parsePlain(string(stored)); ok {
		return h, nil
	}
	var h http.Header
	if err := json.Unmarshal(stored, &h); err != nil {
		return nil, fmt.Errorf("stored headers: %w", err)
	}
	return h, nil
}

// parsePlain reads a stored form without escaped strings, as package encoding/json does, in a tenth of
// the time.
func parsePlain(stored string) (h http.Header, ok bool) {
	h = make(http.Header, strings.Count(stored, ":["))
	p := plain{stored, true}
	p.skip("{")
	for separator := ""; p.ok && p.rest != "}"; separator = "," {
		p.skip(separator)
		name := p.text()
		p.skip(":[")
		values := []string{p.text()}
		for p.ok && !strings.HasPrefix(p.rest, "]") {
			p.skip(",")
			values = append(values, p.text())
		}
		p.skip("]")
		h[name] = values
	}
	return h, p.ok
}

// plain is the rest of a JSON text, as long as it is ok.
type plain struct {
	rest string
	ok   bool
}

// skip cuts token off.
func (p *plain) skip(token string) {
	if p.ok {
		p.rest, p.ok = strings.CutPrefix(p.rest, token)
	}
}

// text cuts a string of visible ASCII without escapes off, and returns it.
func (p *plain) text() string {
	p.skip(`"`)
	for i := 0; p.ok && i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			text := p.rest[:i]
			p.rest = p.rest[i+1:]
			return text
		case c < ' ' || c > '~' || c == '\\':
			p.ok = false
		}
	}
	p.ok = false
	return ""
}

// maxErrorText bounds the stored text of an error, in bytes.
const maxErrorText = 4 << 10

// ErrorText returns the text of err as every database takes it: at most 4 KiB of UTF-8 without NUL.
func ErrorText(err error) string {
	text := err.Error()
	if len(text) > maxErrorText {
		text = text[:maxErrorText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}
