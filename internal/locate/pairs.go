package locate

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// CutPair splits one element of a header of the form "k=v,k=v" at its first '='. It reports false
// if the key is empty, or if the element contains white space or a control character: no sender of
// such headers writes them, and programs read them differently.
func CutPair(element string) (key, value string, ok bool) {
	for i := range len(element) {
		if element[i] <= ' ' || element[i] == 0x7f {
			return "", "", false
		}
	}
	key, value, ok = strings.Cut(element, "=")
	return key, value, ok && key != ""
}

// TrimBlanks cuts the blanks and tabs off both ends of an element. RFC 9110, section 5.6.1, allows them
// around the commas of a list.
func TrimBlanks(element string) string { return strings.Trim(element, " \t") }

// PairValue returns the value under key in a header of the form "k=v,k=v", and how often the key
// occurs. Empty elements are ignored. It reports false if the header has another form.
func PairValue(header, key string) (value string, found int, ok bool) {
	for element := range strings.SplitSeq(header, ",") {
		element = TrimBlanks(element)
		k, v, ok := CutPair(element)
		if !ok && element != "" {
			return "", 0, false
		}
		if ok && k == key {
			value = v
			found++
		}
	}
	return value, found, true
}

// FormValue returns the value of a field of a form, which must occur exactly once. Errors match
// ErrAbsent or ErrMalformed.
func FormValue(body []byte, name string) (string, error) {
	t, err := formField(body, name)
	if err != nil {
		return "", fmt.Errorf("form:%s: %w: %s", name, ErrMalformed, err)
	}
	if t.kind == tokenAbsent {
		return "", fmt.Errorf("form:%s: %w", name, ErrAbsent)
	}
	return t.text, nil
}

// formField looks up a field of a form, urlencoded or multipart, that must occur exactly once.
func formField(body []byte, name string) (token, error) {
	if !IsMultipart(body) {
		return formValue(string(Unmarked(body)), name)
	}
	value, found, err := MultipartField(body, name)
	switch {
	case err != nil || found == 0:
		return token{}, err
	case found > 1:
		return token{}, errTwice
	}
	return token{kind: tokenString, text: value}, nil
}

var errTwice = errors.New("the name occurs more than once")

// formValue looks up a field of an urlencoded string that must occur exactly once.
func formValue(s, name string) (token, error) {
	var t token
	for element := range strings.SplitSeq(s, "&") {
		k, v, _ := strings.Cut(element, "=")
		key, err := url.QueryUnescape(k)
		if err != nil {
			return token{}, errors.New("not a valid urlencoded form")
		}
		value, err := url.QueryUnescape(v)
		if err != nil {
			return token{}, errors.New("not a valid urlencoded form")
		}
		switch {
		case key != name:
		case t.kind != tokenAbsent:
			return token{}, errTwice
		default:
			t = token{kind: tokenString, text: value}
		}
	}
	return t, nil
}
