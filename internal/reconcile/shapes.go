package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/provider"
)

var nextLink = regexp.MustCompile(`<([^>]*)>[^<]*;\s*rel="?next"?`)

// nextCursor returns the cursor of the next page. Only the parameter of the link counts, never its host.
func nextCursor(h http.Header, parameter string) string {
	m := nextLink.FindStringSubmatch(strings.Join(h.Values("Link"), ", "))
	if m == nil {
		return ""
	}
	u, err := url.Parse(m[1])
	if err != nil {
		return ""
	}
	return u.Query().Get(parameter)
}

// queryAt returns the query of the address of the next page; "" for "". Only the query counts, never the host.
func queryAt(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || address != "" && u.RawQuery == "" {
		return "", fmt.Errorf("%w: the address of its next page is malformed", ErrAPI)
	}
	return u.RawQuery, nil
}

// queryOf returns the query for a page, made of that in the list's address.
func queryOf(l *provider.List, query url.Values, since time.Time, cursor string) string {
	if l.Since != "" {
		at := strconv.FormatInt(since.Unix(), 10)
		if l.SinceText {
			at = since.UTC().Format(time.RFC3339)
		}
		query.Set(l.Since, at)
	}
	if cursor != "" {
		query.Set(l.Cursor, cursor)
	}
	return query.Encode()
}

// request returns the body of the request for a page.
func request(l *provider.List, since time.Time, cursor string) ([]byte, error) {
	var fields map[string]any
	err := json.Unmarshal([]byte(strings.ReplaceAll(l.Request, provider.SincePlace, since.UTC().Format(time.RFC3339))), &fields)
	if cursor != "" && err == nil {
		fields[l.Cursor] = cursor
	}
	body, _ := json.Marshal(fields) // of JSON
	return body, err
}

// dig returns the value at a path of provider.List; nil if there is none.
func dig(raw json.RawMessage, path string) json.RawMessage {
	if path == "" {
		return raw
	}
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		var array []json.RawMessage
		switch {
		case json.Unmarshal(raw, &object) == nil:
			raw = object[name]
		case json.Unmarshal(raw, &array) == nil:
			raw = element(array, name)
		default:
			return nil
		}
	}
	return raw
}

// element returns the element of an array with this number, or the first one with this member=value.
func element(array []json.RawMessage, name string) json.RawMessage {
	member, value, named := strings.Cut(name, "=")
	for i := range array {
		if named && text(dig(array[i], member)) == value || strconv.Itoa(i) == name {
			return array[i]
		}
	}
	return nil
}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

// bodyAt returns the body at a path. A text there is the body itself.
func bodyAt(raw json.RawMessage, path string) []byte {
	at := dig(raw, path)
	var body *string
	if json.Unmarshal(at, &body) != nil {
		return at
	}
	if body == nil { // null
		return nil
	}
	return []byte(*body)
}

// text returns a string or a number as text; "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	_ = json.Unmarshal(raw, &n)
	return n.String()
}

func moment(s string) time.Time {
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(seconds, 0)
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime} {
		if at, err := time.Parse(layout, s); err == nil {
			return at
		}
	}
	return time.Time{}
}
