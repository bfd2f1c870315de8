package sample

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"

	"github.com/hookonce/hookonce/internal/locate"
)

// The names of values, and the values themselves, that Redact takes for secrets.
var (
	secretName = regexp.MustCompile(`(?i)secret|token|passw|api_?key|authoriz|credential|private_?key|signature|cookie|` +
		`session_?id|\bcv[cv]2?\b|card_?number|account_?number|\biban\b|\bssn\b|\botp\b`)
	secretValue = regexp.MustCompile(`^(?:[srp]k_(?:live|test)_|whsec_|xox[a-z]-|gh[opsur]_|github_pat_|glpat-|shp(?:at|ss|ca)_|AKIA|` +
		`ya29\.|eyJ[\w-]+\.eyJ|Bearer |Basic |-----BEGIN )`)
)

// Redact returns a body with the values that look secret, by their names or by themselves, replaced by
// their lengths ("<64 bytes>"). A body that is neither JSON nor a form is replaced as a whole.
func Redact(body []byte, form bool) []byte {
	body = locate.Unmarked(body)
	if form {
		fields, err := url.ParseQuery(string(body))
		if err != nil {
			return hide(body)
		}
		for name, values := range fields {
			for i, v := range values {
				if secretName.MatchString(name) || secretValue.MatchString(v) {
					values[i] = string(hide([]byte(v)))
				}
			}
		}
		return []byte(fields.Encode())
	}
	if len(body) == 0 || !json.Valid(body) {
		return hide(body)
	}
	return redact(body, false)
}

// redact redacts a JSON value. within says that the whole value is secret.
func redact(doc []byte, within bool) []byte {
	n, err := parts(doc)
	if err != nil { // a scalar
		var text string
		isText := json.Unmarshal(doc, &text) == nil && text != ""
		number := doc[0] == '-' || doc[0] >= '0' && doc[0] <= '9'
		switch {
		case isText && (within || secretValue.MatchString(text)):
			return quote(string(hide([]byte(text))))
		case number && within:
			return quote(string(hide(doc)))
		}
		return doc
	}
	var out []byte
	at := 0
	for _, p := range n.parts {
		value := redact(doc[p.start:p.end], within || secretName.MatchString(p.name))
		out = append(append(out, doc[at:p.start]...), value...)
		at = p.end
	}
	return append(out, doc[at:]...)
}

func hide(value []byte) []byte { return fmt.Appendf(nil, "<%d bytes>", len(value)) }
