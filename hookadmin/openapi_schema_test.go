package hookadmin_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/hookadmin"
)

// checkDescribed checks the status, content type and body of an answer against the OpenAPI
// document. The body must not hold undescribed keys.
func checkDescribed(t *testing.T, method, path string, got *answer) {
	t.Helper()
	op := describedAt(method, path)
	if op == nil {
		if got.status < 400 && !isPage(path) {
			t.Errorf("%s %s: answer %d, but the path is not described", method, path, got.status)
		}
		return
	}
	described, ok := op.Responses[strconv.Itoa(got.status)]
	if !ok {
		t.Errorf("%s %s: answer %d, which is not described", method, path, got.status)
		return
	}
	described = described.resolve()
	body, ok := described.Content[got.header.Get("Content-Type")]
	if !ok {
		t.Errorf("%s %s answers with undescribed content type %q", method, path, got.header.Get("Content-Type"))
		return
	}
	for name := range described.Headers {
		if got.header.Get(name) == "" {
			t.Errorf("%s %s: %d without %s", method, path, got.status, name)
		}
	}
	if body.Schema == nil || got.header.Get("Content-Type") == "text/event-stream" {
		return // not JSON
	}
	var v any
	if err := json.Unmarshal(got.body, &v); err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return
	}
	if err := body.Schema.check(v); err != nil {
		t.Errorf("%s %s: answer %d with %s\nwhich differs from its description: %v", method, path, got.status, got.body, err)
	}
}

var nameInPath = regexp.MustCompile(`\\\{\w+\\\}`)

// isPage reports whether the path is a page of the dashboard, which the document does not describe.
func isPage(path string) bool {
	return slices.ContainsFunc(hookadmin.Pages(), func(e hookadmin.Endpoint) bool { return isAt(e.Path, path) })
}

// isAt reports whether the path matches the pattern.
func isAt(pattern, path string) bool {
	return compiled("^" + nameInPath.ReplaceAllString(regexp.QuoteMeta(pattern), "[^/]+") + "$").MatchString(path)
}

var expressions sync.Map // by their text

// compiled compiles a regular expression once.
func compiled(text string) *regexp.Regexp {
	found, ok := expressions.Load(text)
	if !ok {
		found, _ = expressions.LoadOrStore(text, regexp.MustCompile(text))
	}
	return found.(*regexp.Regexp)
}

// describedAt returns the operation for a request, or nil.
func describedAt(method, path string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for pattern, methods := range document().Paths {
		if isAt(pattern, path) && method == strings.ToUpper(method) {
			return methods[strings.ToLower(method)]
		}
	}
	return nil
}

// check returns how v, read from JSON, deviates from s, or nil.
func (s *schema) check(v any) error {
	s = s.resolve()
	if len(s.AnyOf) > 0 {
		var errs []error
		for _, one := range s.AnyOf {
			err := one.check(v)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	types, ok := s.Type.([]any)
	if !ok {
		types = []any{s.Type}
	}
	if !slices.Contains(types, any(typeOf(v))) && (typeOf(v) != "integer" || !slices.Contains(types, any("number"))) {
		return fmt.Errorf("%v is %s, want %v", v, typeOf(v), types)
	}
	switch v := v.(type) {
	case string:
		return s.checkText(v)
	case []any:
		for i, item := range v {
			if err := s.Items.check(item); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	case map[string]any:
		return s.checkObject(v)
	}
	return nil
}

func (s *schema) checkObject(v map[string]any) error {
	if s.Properties == nil && s.AdditionalProperties == nil {
		return nil // any object
	}
	for _, key := range s.Required {
		if _, there := v[key]; !there {
			return fmt.Errorf("%s is missing", key)
		}
	}
	for key, value := range v {
		of := s.Properties[key]
		if of == nil {
			of = s.AdditionalProperties
		}
		if of == nil {
			return fmt.Errorf("%s is not described", key)
		}
		if err := of.check(value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func (s *schema) checkText(v string) error {
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%q is not in %q", v, s.Enum)
	}
	if !compiled(s.Pattern).MatchString(v) {
		return fmt.Errorf("%q does not match %s", v, s.Pattern)
	}
	if s.ContentEncoding == "base64" {
		_, err := base64.StdEncoding.DecodeString(v)
		return err
	}
	if s.Format == "date-time" {
		_, err := time.Parse(time.RFC3339Nano, v)
		return err
	}
	return nil
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
