package hookadmin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxBody bounds the body of a request, in bytes.
	maxBody = 1 << 20
	// MaxIDs bounds the ids in one list of a request.
	MaxIDs = 1000
)

var bodyTooLong = &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("The body must not be longer than %d bytes.", maxBody)}

// query returns the parameters of r, or answers with an error and returns false.
func (h *handling) query(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, "The query string is malformed. Write '&' between parameters, and %XX for other characters.", nil)
	}
	return values, err == nil
}

// read decodes the JSON object in the body of a POST into the struct that into points to, or
// answers with an error and returns false. An empty body is an empty object.
func (h *handling) read(w http.ResponseWriter, r *http.Request, into any) bool {
	if refused := checkPost(r); refused != nil {
		h.refuse(w, r, refused)
		return false
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		h.refuse(w, r, bodyTooLong)
		return false
	case errors.Is(err, os.ErrDeadlineExceeded):
		h.fail(w, r, http.StatusRequestTimeout, "The body did not arrive in time.", nil)
		return false
	case err != nil:
		h.fail(w, r, http.StatusBadRequest, "The body could not be read.", nil)
		return false
	}
	if len(raw) == 0 {
		return true
	}
	if err := decodeObject(raw, into); err != nil {
		h.fail(w, r, http.StatusBadRequest, "The body is refused: "+err.Error()+".", nil)
		return false
	}
	return true
}

// checkPost refuses requests that a page of another origin can make a browser send: a browser sends
// the origin with them, and a form cannot have this content type.
func checkPost(r *http.Request) *refusal {
	if new(http.CrossOriginProtection).Check(r) != nil {
		return &refusal{http.StatusForbidden, "Pages of another origin must not change anything here."}
	}
	values := r.Header.Values("Content-Type")
	if r.ContentLength == 0 && strings.Join(values, "") == "" {
		return nil // no body, so no type
	}
	if len(values) != 1 || !isJSON(values[0]) || r.Header.Get("Content-Encoding") != "" {
		return &refusal{http.StatusUnsupportedMediaType, "Send one header: Content-Type: application/json. The body must not be compressed."}
	}
	if r.ContentLength > maxBody {
		return bodyTooLong
	}
	return nil
}

func isJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	charset, there := params["charset"]
	return err == nil && kind == "application/json" && (!there || strings.EqualFold(charset, "utf-8"))
}

// decodeObject decodes one JSON object into the struct that into points to, whose fields are
// strings, lists of strings, booleans and such structs. It is strict, because leaving out a key can widen a
// request: keys are known, spelled exactly and appear once; no value is null or empty.
func decodeObject(raw []byte, into any) error {
	if !utf8.Valid(raw) {
		return errors.New("it is not valid UTF-8")
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(raw, new(json.RawMessage)); errors.As(err, &syntax) {
		return fmt.Errorf("at byte %d: %w", syntax.Offset, syntax)
	} else if err != nil {
		return err
	}
	// The syntax is correct from here on.
	if at, half := halfCharacter(raw); half != "" {
		return fmt.Errorf("at byte %d: %s is one half of a character: write both halves, or the character itself", at, half)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	return decodeFields(dec, into)
}

// halfCharacter returns the first escape in raw, which is correct JSON, that is a surrogate without its
// other half, and its place, counted from 1; or "". encoding/json would read it as U+FFFD.
func halfCharacter(raw []byte) (at int, escape string) {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		unit := escapedUnit(raw[i:])
		if !utf16.IsSurrogate(unit) {
			i++ // the next one may be another '\\'
			continue
		}
		const length = len(`\u0000`)
		if utf16.DecodeRune(unit, escapedUnit(raw[i+length:])) == unicode.ReplacementChar {
			return i + 1, string(raw[i : i+length])
		}
		i += 2*length - 1
	}
	return 0, ""
}

// escapedUnit returns the number of the \u escape that raw begins with, or -1.
func escapedUnit(raw []byte) rune {
	if len(raw) < len(`\u0000`) || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// decodeFields decodes the rest of an object behind its '{'.
func decodeFields(dec *json.Decoder, into any) error {
	fields, names := fieldsOf(into)
	for seen := map[string]bool{}; dec.More(); {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // keys are strings
		field, known := fields[key]
		switch {
		case !known && len(names) == 0:
			return fmt.Errorf("at byte %d: unknown key %q; the body has no keys", dec.InputOffset(), key)
		case !known:
			return fmt.Errorf("at byte %d: unknown key %q; known keys are %s", dec.InputOffset(), key, strings.Join(names, ", "))
		case seen[key]:
			return fmt.Errorf("at byte %d: the key %q appears twice", dec.InputOffset(), key)
		}
		seen[key] = true
		if isStruct(field) {
			if token, err := dec.Token(); err != nil || token != json.Delim('{') {
				return fmt.Errorf("at byte %d: %q: must be an object", dec.InputOffset(), key)
			}
			if err := decodeFields(dec, field); err != nil {
				return fmt.Errorf("in %q: %w", key, err)
			}
		} else if reason := decodeValue(dec, key, field); reason != "" {
			return fmt.Errorf("at byte %d: %q: %s", dec.InputOffset(), key, reason)
		}
	}
	_, _ = dec.Token() // '}', as the syntax is correct
	return nil
}

func isStruct(field any) bool { return reflect.TypeOf(field).Elem().Kind() == reflect.Struct }

// fieldsOf returns pointers to the fields of a struct by their JSON names.
func fieldsOf(into any) (fields map[string]any, names []string) {
	fields = make(map[string]any)
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		into := v.Field(i).Addr().Interface()
		if v.Type().Field(i).Anonymous {
			inner, more := fieldsOf(into)
			maps.Copy(fields, inner)
			names = append(names, more...)
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name], names = into, append(names, name)
	}
	return fields, names
}

// decodeValue decodes one value, and returns why it is refused, or "".
func decodeValue(dec *json.Decoder, key string, into any) string {
	token, err := dec.Token()
	if err != nil {
		return err.Error()
	}
	switch into := into.(type) {
	case *bool:
		var ok bool
		if *into, ok = token.(bool); !ok {
			return "must be true or false"
		}
	case *string:
		var ok bool
		if *into, ok = token.(string); !ok {
			return "must be a string"
		}
		return refusedText(key, *into)
	case *[]string:
		if token != json.Delim('[') {
			return "must be a list of strings"
		}
		return decodeTexts(dec, key, into)
	default:
		panic(fmt.Sprintf("hookadmin: unsupported type of a request field: %T", into))
	}
	return ""
}

func decodeTexts(dec *json.Decoder, key string, into *[]string) string {
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err.Error()
		}
		text, ok := token.(string)
		if !ok {
			return "must be a list of strings"
		}
		if reason := refusedText(key, text); reason != "" {
			return reason
		}
		if slices.Contains(*into, text) {
			return fmt.Sprintf("%q appears twice", text)
		}
		if *into = append(*into, text); len(*into) > MaxIDs {
			return fmt.Sprintf("at most %d of them in one request", MaxIDs)
		}
	}
	if len(*into) == 0 {
		return "must not be empty; leave it out to accept any value"
	}
	_, _ = dec.Token() // ']', as the syntax is correct
	return ""
}

func refusedText(key, s string) string {
	if s == "" {
		return "must not be empty; leave it out to accept any value"
	}
	return badText(key, s)
}
