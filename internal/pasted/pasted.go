// Package pasted finds accidents of copying in a secret.
package pasted

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/provider"
)

// assignment is a line of a file of variables. Base64 ends with '=', so a value must follow.
var assignment = regexp.MustCompile(`^(export )?[A-Z][A-Z0-9_]*=[^=]`)

// Slip names an accident of copying in a secret, or returns "". It allows blanks and quotes
// inside, and all letters, which people do choose.
func Slip(secret string) string {
	first, _ := utf8.DecodeRuneInString(secret)
	last, _ := utf8.DecodeLastRuneInString(secret)
	invisible := func(r rune) bool { return unicode.In(r, unicode.Cf, unicode.Cc, unicode.Zs) && r != ' ' }
	switch {
	case strings.HasPrefix(secret, "\xff\xfe"), strings.HasPrefix(secret, "\xfe\xff"), strings.ContainsRune(secret, 0):
		return "is text in UTF-16: save its file as UTF-8; it has a byte order mark or NUL bytes"
	case first == '\ufeff':
		return "begins with a byte order mark"
	case strings.TrimSpace(secret) != secret:
		return "begins or ends with a space"
	case strings.ContainsAny(secret, "\r\n"):
		return "has more than one line: it holds a line break"
	case len(secret) > 1 && first == last && strings.ContainsRune("\"'`", first):
		return "has quotes around it"
	case strings.ContainsAny(secret, "\u2018\u2019\u201c\u201d\u2013\u2014\u2026"):
		return "has a typographic quote, dash or ellipsis"
	case strings.ContainsFunc(secret, invisible):
		return "has an invisible character"
	case assignment.MatchString(secret):
		return "begins with the name of a variable and '='"
	}
	return ""
}

// otherKeys are things that the pages of senders show near the secret.
var otherKeys = []struct {
	form *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^([srp]k_(live|test)_|xox[a-z]-|xapp-|gh[opsur]_|github_pat_|glpat-|shp(at|ca|pa)_|AKIA|AIza|SG\.)`), "a key of an API"},
	{regexp.MustCompile(`^we_[A-Za-z0-9]{14,}$`), "the id of an endpoint"},
	{regexp.MustCompile(`^https?://`), "a URL"},
}

// OtherKey names the other thing that a secret looks like, or returns "". Paystack signs with the key of its API; with
// hmac, token, basic and no name the sender is unknown.
func OtherKey(secret string, of provider.Name) string {
	switch of {
	case "", provider.HMAC, provider.Token, provider.Basic, provider.Paystack:
		return ""
	}
	for _, other := range otherKeys {
		if other.form.MatchString(secret) {
			return other.what
		}
	}
	return ""
}
