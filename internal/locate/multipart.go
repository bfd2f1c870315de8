package locate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// Limits of a body in multipart/form-data.
const (
	maxFormParts = 1000
	maxFormField = 32 << 20 // bytes of one field; the body of a raw email may be one
	maxBoundary  = 70       // RFC 2046, section 5.1.1
)

// boundary returns the boundary of a body in multipart/form-data (RFC 7578), and "" for another body. It
// looks at the body only: the header Content-Type is rarely signed, and an attacker who could choose the
// boundary could choose the fields. An urlencoded form has no line break. Some clients send one before the
// first boundary.
func boundary(body []byte) string {
	rest, dashes := bytes.CutPrefix(bytes.TrimPrefix(body, []byte("\r\n")), []byte("--"))
	line, _, ok := bytes.Cut(rest[:min(len(rest), maxBoundary+2)], []byte("\r\n"))
	if !dashes || !ok || len(line) == 0 {
		return ""
	}
	return string(line)
}

// IsMultipart reports whether body is one in multipart/form-data.
func IsMultipart(body []byte) bool { return boundary(body) != "" }

var (
	errMultipart = errors.New("not a valid multipart form")
	errUnnamed   = errors.New("a part of the form has no clear name")
)

// MultipartField returns the value of a field of a body in multipart/form-data, and how often the name
// occurs. A part with a file name is no field, but one of the same name counts.
func MultipartField(body []byte, name string) (value string, found int, err error) {
	r := multipart.NewReader(bytes.NewReader(body), boundary(body))
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

// nameOf returns the name of a part, and whether it has a file name, perhaps an empty one. Programs differ
// on name*, which RFC 7578 does not have.
func nameOf(part *multipart.Part) (name string, isFile bool, err error) {
	values := part.Header["Content-Disposition"]
	if len(values) != 1 {
		return "", false, errUnnamed
	}
	kind, params, err := mime.ParseMediaType(values[0])
	name, named := params["name"]
	_, isFile = params["filename"]
	lower := strings.ToLower(values[0])
	extended := strings.Count(lower, "name*") > strings.Count(lower, "filename*")
	if err != nil || !named || extended || kind != "form-data" {
		return "", false, errUnnamed
	}
	return name, isFile, nil
}
