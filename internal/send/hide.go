package send

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/headers"
)

// hidden replaces secrets of a request in a text of its destination, which may quote them: many
// servers quote the requested path in a 404, and echo servers quote all headers.
type hidden struct {
	replace *strings.Replacer
	longest int // bytes of the longest secret
}

// secretsOf returns the secrets of a request: its signature, the target's secret, and those parts of
// the URL that may be credentials.
func secretsOf(req *request) hidden {
	const shortest = 8 // shorter parts of a URL are words such as "hooks"
	u := req.url
	parts := []string{u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery}
	parts = append(parts, strings.Split(u.Path, "/")...)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return len(part) < shortest })
	bare := strings.TrimPrefix(req.secret, "whsec_")
	parts = append(parts, req.secret, bare)
	if key, err := base64.StdEncoding.DecodeString(bare); err == nil && len(key) >= shortest {
		parts = append(parts, string(key))
	}
	for _, signature := range req.header.Values("Webhook-Signature") {
		parts = append(parts, signature)
		for one := range strings.FieldsSeq(signature) {
			_, mac, _ := strings.Cut(one, ",")
			parts = append(parts, mac)
		}
	}
	var all []string
	for _, part := range parts {
		if part != "" {
			all = append(all, spellings(part)...)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // longest first: parts contain each other
	var pairs []string
	for _, s := range slices.Compact(all) {
		pairs = append(pairs, s, headers.Secret)
	}
	h := hidden{replace: strings.NewReplacer(pairs...)}
	if len(all) > 0 {
		h.longest = len(all[0])
	}
	return h
}

// spellings returns a secret as servers quote it: in text, JSON, HTML and URLs.
func spellings(secret string) []string {
	quoted, _ := json.Marshal(secret) // a string always encodes
	inJSON := strings.Trim(string(quoted), `"`)
	return []string{
		secret, inJSON, strings.ReplaceAll(inJSON, "/", `\/`),
		html.EscapeString(secret), strings.NewReplacer("+", "&#43;", "=", "&#61;").Replace(html.EscapeString(secret)),
		url.QueryEscape(secret), url.PathEscape(secret),
	}
}

func (h hidden) in(text string) string { return h.replace.Replace(text) }

// begin returns the beginning of body without the secrets. It never ends with a part of a secret.
func (h hidden) begin(body []byte) string {
	const window = 4 * MaxResponse
	if len(body) <= window && len(body) < maxResponseBody {
		return h.in(string(body))
	}
	text := h.in(string(body[:min(len(body), window)]))
	return text[:max(0, len(text)-max(0, h.longest-1))]
}

// cut returns at most limit bytes of text. It does not cut a character of UTF-8 in two.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for end := limit; end > limit-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:limit]
}
