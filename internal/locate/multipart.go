package locate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"regexp"
	"slices"
	"strings"
)

// Limits of a body in multipart/form-data.
const (
	maxFormParts = 1000
	maxFormField = 32 << 20 // bytes of one field; the body of a raw email may be one
	maxPreamble  = 1 << 10  // bytes in front of the first boundary
)

// firstBoundary is the line of the first boundary (RFC 2046, section 5.1.1) that no line of
// JSON or XML looks like.
var firstBoundary = regexp.MustCompile(`(?:^|\r\n)--([!#-;=?-z|~ ]{0,69}[!#-;=?-z|~])[ \t]*\r\n`)

// boundary returns the boundary of a body in multipart/form-data (RFC 7578), and "" for another body. It
// looks at the body only: the header Content-Type is rarely signed, and an attacker who could choose the
// boundary could choose the fields. An urlencoded form has no line break.
func boundary(body []byte) string {
	body = Unmarked(body)
	if found := firstBoundary.FindSubmatch(body[:min(len(body), maxPreamble)]); found != nil {
		return string(found[1])
	}
	return ""
}

// IsMultipart reports whether body is one in multipart/form-data.
func IsMultipart(body []byte) bool { return boundary(body) != "" }

var (
	errMultipart = errors.New("not a valid multipart form")
	errUnnamed   = errors.New("a part of the form has no clear name")
	errEncoded   = errors.New("the field has a Content-Transfer-Encoding such as base64, which is not read: send the value itself")
)

// MultipartField returns the value of a field of a body in multipart/form-data, and how often the name
// occurs. A part with a file name is no field, but one of the same name counts.
func MultipartField(body []byte, name string) (value string, found int, err error) {
	// The reader takes an end behind any boundary for that of the form. With more lines a part without a name follows.
	r := multipart.NewReader(io.MultiReader(bytes.NewReader(Unmarked(body)), strings.NewReader("\r\n\r\n")), boundary(body))
	for parts := 0; ; parts++ {
		part, err := r.NextRawPart()
		switch {
		case err == io.EOF: //nolint:errorlint // a wrapped one is a body that was cut off
			return value, found, nil
		case err != nil:
			return "", 0, errMultipart
		case parts == maxFormParts:
			return "", 0, fmt.Errorf("the form has more than %d parts", maxFormParts)
		}
		own, isFile, err := nameOf(part)
		if err != nil {
			return "", 0, err
		}
		if own != name {
			continue
		}
		if found++; isFile {
			return "", 0, errors.New("the field is a file")
		}
		// RFC 7578, section 4.7, deprecates encodings: programs differ on what the value is.
		switch strings.ToLower(strings.Join(part.Header["Content-Transfer-Encoding"], ", ")) {
		case "", "7bit", "8bit", "binary":
		default:
			return "", 0, errEncoded
		}
		text, err := io.ReadAll(io.LimitReader(part, maxFormField+1))
		switch {
		case err != nil:
			return "", 0, errMultipart
		case len(text) > maxFormField:
			return "", 0, fmt.Errorf("the field is longer than %d bytes", maxFormField)
		}
		value = string(text)
	}
}

// nameOf returns the name of a part, and whether it has a file name, perhaps an empty or unreadable one.
// Only the name is read exactly: a file whose name stands behind an odd file name has none. Programs differ
// on name*, which RFC 7578 does not have.
func nameOf(part *multipart.Part) (name string, isFile bool, err error) {
	values := part.Header["Content-Disposition"]
	if len(values) != 1 {
		return "", false, errUnnamed
	}
	own, isFile := cutParameter(values[0], "filename", "filename*")
	kind, params, err := mime.ParseMediaType(own)
	name, named := params["name"]
	if isFile && !named && err == nil && kind == "form-data" {
		_, params, _ = mime.ParseMediaType(values[0])
		return params["name"], true, nil
	}
	_, extended := cutParameter(own, "name*")
	if err != nil || !named || extended || kind != "form-data" {
		return "", false, errUnnamed
	}
	return name, isFile, nil
}

// cutParameter cuts value before its first parameter with one of names. A name that ends with '*' stands for
// all that begin with it.
func cutParameter(value string, names ...string) (before string, found bool) {
	quoted := false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ';' && !quoted:
			own := strings.ToLower(strings.TrimLeft(value[i+1:], " \t"))
			own = own[:len(own)-len(strings.TrimLeft(own, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"))]
			first, _, star := strings.Cut(own, "*")
			if slices.Contains(names, own) || star && slices.Contains(names, first+"*") {
				return value[:i], true
			}
		}
	}
	return value, false
}
