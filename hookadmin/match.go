package hookadmin

import (
	"net/http"
	"net/url"
	"strings"
)

// match returns the endpoints at an escaped path, and the values of the names in their pattern.
func match(path string) ([]*endpoint, map[string]string) {
	segments := strings.Split(path, "/")
	var found []*endpoint
	var values map[string]string
	for i := range endpoints {
		e := &endpoints[i]
		if len(found) > 0 {
			if e.path == found[0].path {
				found = append(found, e)
			}
			continue
		}
		if these, ok := e.match(segments); ok {
			found, values = append(found, e), these
		}
	}
	return found, values
}

func (e *endpoint) match(segments []string) (map[string]string, bool) {
	pattern := strings.Split(e.path, "/")
	if len(pattern) != len(segments) {
		return nil, false
	}
	values := make(map[string]string)
	for i, segment := range segments {
		name, isName := strings.CutPrefix(pattern[i], "{")
		if !isName {
			if segment != pattern[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(segment)
		if err != nil || value == "" {
			return nil, false
		}
		values[strings.TrimSuffix(name, "}")] = value
	}
	return values, true
}

// forMethod returns the endpoint for method, or nil. GET serves HEAD: net/http drops the body.
func forMethod(at []*endpoint, method string) *endpoint {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, e := range at {
		if e.method == method {
			return e
		}
	}
	return nil
}
