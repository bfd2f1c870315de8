// Package pasted finds accidents of copying in a secret.
package pasted

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/provider"
)

// assignment is a line of a file of variables, a shell or YAML. Base64 ends with '=', so a value must
// follow; basic authentication is "user:password", so a blank must.
var assignment = regexp.MustCompile(`^(?:(?i:export |set |\$env:)[A-Za-z_]\w*|[A-Z][A-Z0-9_]*|\w*(?i:secret|token|key)\w*)(?:[ \t]*=[ \t]*[^= \t]|:[ \t]+[^ \t])`)

// masked is what pages show in place of a secret.
var masked = regexp.MustCompile(`[\x{2022}\x{25cf}]{2}|\*{4}`)

// unfilled is what templates and names of vaults leave if nothing puts the secret in their place. Package config
// refuses $NAME and ${NAME}.
var unfilled = regexp.MustCompile(`^(?:\$\(.*\)|%[A-Z][A-Z0-9_]+%|\{\{.*\}\}|<[^<>]*>|\[YOUR[^]]*\]|` +
	`(?:op|vault|secretref|ref\+\w+)://.*|arn:aws[a-z-]*:.*|projects/[^/]+/secrets/.*|ENC\[.*\]|@Microsoft\.KeyVault\(.*\))$`)

// document is JSON, as vaults keep secrets.
var document = regexp.MustCompile(`^\{\s*"(?:[^"\\]|\\.)*"\s*:.*\}$`)

// typographic are quotes, dashes and the ellipsis that word processors and chats put in place of those of ASCII.
const typographic = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u2032\u2033\u2039\u203a\u00ab\u00b4\u00bb\uff02\uff07" +
	"\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2026"

// Slip names an accident of copying in a secret, or returns "". It allows blanks and quotes
// inside, and all letters, which people do choose.
func Slip(secret string) string {
	unended := strings.TrimRight(secret, ",;") // as in JSON or a program
	first, _ := utf8.DecodeRuneInString(secret)
	last, _ := utf8.DecodeLastRuneInString(unended)
	invisible := func(r rune) bool {
		return r == '\u2800' || r != ' ' && unicode.In(r, unicode.Cf, unicode.Cc, unicode.Z, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
	}
	switch {
	case strings.HasPrefix(secret, "\xff\xfe"), strings.HasPrefix(secret, "\xfe\xff"), strings.ContainsRune(secret, 0):
		return "is text in UTF-16: save its file as UTF-8; it has a byte order mark or NUL bytes"
	case first == '\ufeff':
		return "begins with a byte order mark"
	case strings.TrimSpace(secret) != secret:
		return "begins or ends with a space"
	case strings.ContainsAny(secret, "\r\n"):
		return "has more than one line: it holds a line break"
	case len(unended) > 1 && first == last && strings.ContainsRune("\"'`", first):
		return "has quotes around it"
	case unfilled.MatchString(secret):
		return "is a placeholder or the name of a secret: nothing has put the secret in its place"
	case document.MatchString(secret) && !strings.Contains(secret, `"kty"`):
		return "is a JSON document: take the secret out of it"
	case strings.HasSuffix(secret, `\n`):
		return "ends with the two characters \\n, which were meant as a line break"
	case strings.HasPrefix(secret, "d2hzZWNf"):
		return "is encoded in base64, as in a manifest of Kubernetes: decode it"
	case masked.MatchString(secret):
		return "is masked: copy the secret itself, not its picture on a page"
	case strings.ContainsAny(secret, typographic):
		return "has a typographic quote, dash or ellipsis"
	case strings.ContainsFunc(secret, invisible):
		return "has an invisible character"
	case assignment.MatchString(secret):
		return "begins with the name of a variable and '=' or ':'"
	}
	return ""
}

// otherKeys are things that the pages of senders show near the secret.
var otherKeys = []struct {
	form *regexp.Regexp
	what string
	of   provider.Name // signs with such a key
}{
	{regexp.MustCompile(`^sk_(live|test)_`), "a key of an API", provider.Paystack},
	{regexp.MustCompile(`^key-[0-9a-z]{32}$`), "a key of an API", provider.Mailgun}, // older accounts sign with it
	{regexp.MustCompile(`^([rp]k_(live|test)_|sk_org_(live|test)_|xox[a-z][-.]|xapp-|gh[opsur]_|github_pat_|glpat-|shp(at|ca|pa)_|AIza|SG\.|` +
		`rzp_(live|test)_|lin_api_|tfp_|ntn_|APP_USR-|A[KS]IA[A-Z2-7]{16}$|SK[0-9a-f]{32}$|pdl_(live|sdbx)_apikey_|pat-(na|eu)[0-9]-|` +
		`sk-(ant|proj|svcacct|admin)-|figd_|re_[A-Za-z0-9]{6,}_[A-Za-z0-9]{10,}$|EAA[A-Za-z0-9]{60,}$)`), "a key of an API", ""},
	{regexp.MustCompile(`^we_[A-Za-z0-9]{14,}$`), "the id of an endpoint", ""},
	{regexp.MustCompile(`^(acct_[A-Za-z0-9]{14,}|AC[0-9a-f]{32})$`), "the id of an account", ""},
	{regexp.MustCompile(`^https?://`), "a URL", ""},
}

// OtherKey names the other thing that a secret looks like, or returns "". With hmac, token, basic and no name the
// sender is unknown.
func OtherKey(secret string, of provider.Name) string {
	switch of {
	case "", provider.HMAC, provider.Token, provider.Basic:
		return ""
	}
	for _, other := range otherKeys {
		if of != other.of && other.form.MatchString(secret) {
			return other.what
		}
	}
	return ""
}
