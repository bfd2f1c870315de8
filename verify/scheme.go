package verify

import (
	"encoding/json"
	"net/http"
	"time"
)

// Family is the general form of a scheme. It decides which fields of Scheme apply.
type Family string

// The scheme families.
const (
	// FamilyHMAC is an HMAC (RFC 2104) over Scheme.Content.
	FamilyHMAC Family = "hmac"
	// FamilyDigest is a plain hash over Scheme.Content, which holds {secret}. It is weaker than an
	// HMAC, so Scheme.Weak is required.
	FamilyDigest Family = "digest"
	// FamilySignature is a signature with a private key (Ed25519, ECDSA or RSA) over
	// Scheme.Content.
	FamilySignature Family = "signature"
	// FamilyStandardWebhooks is Standard Webhooks: an HMAC ("v1") or an Ed25519 signature ("v1a")
	// over "{id}.{timestamp}.{body}". Its headers are webhook-id, webhook-timestamp and
	// webhook-signature, or the same with svix-; a request that mixes the two is malformed. It uses
	// only these fields of Scheme: ID, Weak, Algorithm, SecretEncoding, Timestamp and Params. Sign
	// sets svix- headers if Timestamp.At begins with header:svix-timestamp. The specification: https://www.standardwebhooks.com
	FamilyStandardWebhooks Family = "standard-webhooks"
	// FamilyToken is a shared secret that the sender sends as it is.
	FamilyToken Family = "token"
	// FamilyBasic is HTTP basic authentication (RFC 7617). The secret is user:password.
	FamilyBasic Family = "basic"
	// FamilyJWT is a JSON Web Token (RFC 7519). Scheme.JWT lists the claims it must make.
	FamilyJWT Family = "jwt"
	// FamilyJWS is a JSON Web Signature with detached content (RFC 7515, appendix F). Its payload
	// is Scheme.Content.
	FamilyJWS Family = "jws"
	// FamilyNone checks nothing: every request passes, with or without keys.
	FamilyNone Family = "none"
)

// Values of Scheme.Algorithm. FamilyHMAC and FamilyDigest take hashes, FamilySignature and
// FamilyJWS take public-key algorithms, and Standard Webhooks takes hmac-sha256 or ed25519.
// FamilyJWT uses JWT.Algorithms instead, with the names of RFC 7518.
const (
	AlgorithmSHA1       = "sha1" // weak as a hash, still sound in an HMAC
	AlgorithmSHA256     = "sha256"
	AlgorithmSHA384     = "sha384"
	AlgorithmSHA512     = "sha512"
	AlgorithmMD5        = "md5" // weak
	AlgorithmHMACSHA256 = "hmac-sha256"

	AlgorithmEd25519      = "ed25519"
	AlgorithmECDSASHA256  = "ecdsa-p256-sha256" // ASN.1 DER signatures, like the next
	AlgorithmECDSASHA1    = "ecdsa-p256-sha1"
	AlgorithmRSASHA1      = "rsa-sha1" // PKCS #1 v1.5, like the next two
	AlgorithmRSASHA256    = "rsa-sha256"
	AlgorithmRSASHA512    = "rsa-sha512"
	AlgorithmRSAPSSSHA512 = "rsa-pss-sha512"
)

// Values of Scheme.Encoding, Scheme.Format, Scheme.SecretEncoding and Timestamp.Format.
const (
	EncodingHex        = "hex"
	EncodingBase64     = "base64"
	EncodingBase64URL  = "base64url"
	EncodingBase64Hex  = "base64hex"  // base64 of lower-case hexadecimal digits
	EncodingURLEscaped = "urlescaped" // base64 or base64url, percent-encoded

	FormatPlain  = "plain"
	FormatKV     = "kv"
	FormatList   = "list"
	FormatGroups = "groups"
	FormatPairs  = "pairs"
	FormatJSON   = "json"

	SecretRaw    = "raw"
	SecretBase64 = "base64"
	SecretHex    = "hex"
	SecretWhsec  = "whsec"
	SecretSHA1   = "sha1" // the key is the SHA-1 of the secret
	SecretNFKD   = "nfkd" // the key is the secret in Unicode normalization form KD
	SecretHTML   = "html" // the key is the secret after decoding the HTML entities of quotes, <, > and &; or as it is

	TimeUnix     = "unix"
	TimeUnixMS   = "unix_ms"
	TimeRFC3339  = "rfc3339"
	TimeAny      = "any"       // one of the three, told apart by its form
	TimeISO      = "iso"       // RFC 3339; a time without a zone is in UTC
	TimeHTTPDate = "http_date" // an HTTP date (RFC 9110), such as "Thu, 04 Jan 2024 18:05:25 GMT", or RFC 3339
)

// DefaultTolerance applies if Timestamp.Tolerance is 0.
const DefaultTolerance = 5 * time.Minute

// Scheme describes how a sender signs. It is plain data: the catalog of package provider holds
// schemes as JSON, and the settings of a source can spell one out. Compile checks a scheme, and
// refuses fields that its family does not use.
type Scheme struct {
	ID     string `json:"id"`     // unique within its provider, such as "sha256"
	Family Family `json:"family"` // required
	// Weak tells users why to prefer another scheme of the provider. "" means that the scheme is
	// sound. A weak scheme applies only if a source names it.
	Weak string `json:"weak,omitempty"`

	// Header and At locate the signature, token or JWT: in a header, or else at body:path,
	// form:field, query:name, item:path, or body: for the body itself. Set one of them. With
	// {vonage_params}, "form:field | body:path" takes forms and JSON bodies.
	Header string `json:"header,omitempty"`
	At     string `json:"at,omitempty"`
	// MoreHeaders may carry further signatures, for example of a second key during a rotation. The
	// request must have Header or one of these, each at most once.
	MoreHeaders []string `json:"more_headers,omitempty"`
	// Document is form:field if that field of a form holds the JSON that body: and {json:path} read
	// (Dropbox Sign). Only for hmac, digest and signature.
	Document string `json:"document,omitempty"`
	// Each is the location of a batch (body:path, see provider.EventRules.Batch) whose items each
	// carry their own signature or token; At is then item:path. All of them must be right. A batch
	// without items is malformed, because it carries no signature.
	Each string `json:"each,omitempty"`
	// Prefix stands before the encoded signature or token, such as "sha256=". With PrefixOptional
	// it may be absent. If it ends with a space in the header Authorization, its case and further spaces do not matter.
	Prefix         string `json:"prefix,omitempty"`
	PrefixOptional bool   `json:"prefix_optional,omitempty"`
	// Format is the form of the value. Empty elements of a list are ignored:
	// 	plain  (default) one signature
	// 	kv     "t=1,v1=aa,v1=bb": pairs separated by Separator (default ',') and blanks
	// 	       around it. Values under SignatureKeys are signatures, and any of them may match
	// 	list   signatures separated by Separator and blanks around it; with a Timestamp at header:Name#0 the
	// 	       first element is the time
	// 	groups several kv, separated by spaces, each with its own time
	// 	pairs  "id|aa&id|bb": the signature of the pair whose id is the value of the
	// 	       parameter SignatureKeys[0]
	// 	json   base64 of a JSON object; SignatureKeys[0] is the member with the signature
	Format        string   `json:"format,omitempty"`
	Separator     string   `json:"separator,omitempty"`
	SignatureKeys []string `json:"signature_keys,omitempty"`

	Algorithm string `json:"algorithm,omitempty"` // sha256 by default for hmac and digest, hmac-sha256 for Standard Webhooks
	Encoding  string `json:"encoding,omitempty"`  // hex (default), base64, base64url, base64hex, urlescaped
	// Content is a template of the signed bytes; \n is a line feed. The default is {body}. A value
	// must not contain the literal character beside it, such as the '.' in "{header:Name}.{body}":
	// otherwise bytes could move between a signed id and a signed body. Placeholders:
	// 	{body} {method} {timestamp}  as received
	// 	{url} {path} {path_query}    of Request.URL; {url_unescaped} also after undoing a fixed set of escapes (HubSpot),
	// 	                             {path_query_escaped} after escaping all of it again (Contentful)
	// 	{header:Name} {query:name}
	// 	{json:path} {form:field} {item:path}   as text; an absent {item:...} is ""
	// 	{item_free:path}             the one value that may contain the character beside it
	// 	{param:name}                 see Params
	// 	{secret}                     FamilyDigest only
	// 	{sha256:body} {sha256_base64:body} {sha256_raw:body} {sha256:url} {crc32:body} {base64:body} {base64url:body}
	// 	{sorted_form} {sorted_query} {php_form} {sns} {signed_headers} {qsh} {vonage_params} {mercado_pago}
	// 	                             each used by one provider; see derived.go
	// Content must cover the body, unless Partial is set.
	Content string `json:"content,omitempty"`
	// Partial names the parts of the request that are not signed, for users: "the body". A scheme
	// that does not cover the body does not compile without it.
	Partial string `json:"partial,omitempty"`
	// AnyPort accepts {url} with and without its port.
	AnyPort bool `json:"any_port,omitempty"`
	// SecretEncoding says how the secret's text becomes key bytes: raw (default), base64, hex,
	// whsec (an optional prefix whsec_ or v1,whsec_, then base64; the default for Standard Webhooks), sha1,
	// nfkd or html.
	SecretEncoding string     `json:"secret_encoding,omitempty"`
	Timestamp      *Timestamp `json:"timestamp,omitempty"`
	// Require lists conditions besides the signature. They are checked after it.
	Require []Requirement `json:"require,omitempty"`
	// Params lists the parameters that the scheme needs besides secrets and keys.
	Params []Param `json:"params,omitempty"`
	JWT    *JWT    `json:"jwt,omitempty"` // required for FamilyJWT, and only used there
	// KeyID locates the id of the signing key in the request: header:Name, or header:Name#member of
	// a JSON header. Empty if the request names no key. JWT and JWS use their kid instead.
	KeyID string `json:"key_id,omitempty"`
	// Keys says where to fetch public keys; nil: keys must be given.
	Keys *KeySource `json:"keys,omitempty"`

	// Values holds the value of each of Params, from the settings of the source.
	Values map[string]string `json:"-"`
}

// Param is a parameter of a scheme, such as the id of a webhook.
type Param struct {
	Name  string `json:"name"`
	About string `json:"about"` // a description for users, and where they find the value
	// Need is signature (default: nothing can be verified without the parameter), source
	// (verification works, but proves too little, so a source must set it), or optional (claims,
	// requirements and keys that use it are left out).
	Need string `json:"need,omitempty"`
	// Sets maps each allowed value to the fields of Scheme that it changes, as JSON. nil allows any
	// text.
	Sets map[string]json.RawMessage `json:"sets,omitempty"`
}

// Values of Param.Need.
const (
	NeedSignature = "signature"
	NeedSource    = "source"
	NeedOptional  = "optional"
)

// Requirement is a condition besides the signature. It is left out if its parameter is not set.
type Requirement struct {
	At     string `json:"at"`     // a location: header:Name, body:path, form:field, query:name, item:path
	Equals string `json:"equals"` // a template like Scheme.Content
	// Each is a batch (see provider.EventRules.Batch); every item must meet the requirement, and At
	// is then item:path. An empty batch is malformed.
	Each string `json:"each,omitempty"`
}

// Timestamp says where a request carries its time of signing.
type Timestamp struct {
	// At is a location: header:Name; header:Name#key, such as "header:Stripe-Signature#t";
	// header:Name#0 in the format list; body:path, form:field or query:name. For a JWT it is
	// jwt:iat or jwt:exp. Standard Webhooks fix it, so it may be empty; see FamilyStandardWebhooks.
	At string `json:"at"`
	// Format is unix (seconds in decimal digits, the default), unix_ms, rfc3339, any, iso or
	// http_date.
	Format string `json:"format,omitempty"`
	// Tolerance is the largest accepted difference from Request.Now, in both directions and
	// inclusive. Both times are cut to the resolution of Format. 0 means DefaultTolerance; at most
	// 366 days.
	Tolerance time.Duration `json:"tolerance,omitempty"`
	// Number says that the sender writes the time, which is in a JSON body, as a number. Verify
	// accepts a text too.
	Number bool `json:"number,omitempty"`
}

// JWT lists the rules for a token. Its exp and nbf are always checked, with a leeway of
// Timestamp.Tolerance, or of one minute without a Timestamp.
type JWT struct {
	// Algorithms lists the accepted algorithms by their names in RFC 7518: HS256, RS256, ES256...
	// All must use the same kind of key.
	Algorithms []string `json:"algorithms"`
	// Claims must be present with these values. At least one must depend on the body, unless
	// Scheme.Partial is set.
	Claims []Claim `json:"claims,omitempty"`
	// Expires makes exp mandatory.
	Expires bool `json:"expires,omitempty"`
	// ID says that Sign adds a random jti. Verify does not demand one.
	ID bool `json:"id,omitempty"`
}

// Claim is a required claim of a JWT.
type Claim struct {
	Name string `json:"name"`
	// Equals is a template like Scheme.Content. If the claim is a list, one of its elements must be
	// equal. A claim whose parameter is not set is left out.
	Equals string `json:"equals"`
	// Or lists alternatives to Equals.
	Or []string `json:"or,omitempty"`
	// WithBody requires the claim only of requests that have a body.
	WithBody bool `json:"with_body,omitempty"`
}

// KeySource says where to fetch public keys: always by https, from the hosts listed here. This
// package does not fetch them; see Verifier.KeyRef.
type KeySource struct {
	// URL is a template of {kid} and {param:name}. If it is "", the request names the address: see
	// URLAt.
	URL string `json:"url,omitempty"`
	// URLAt locates the URL in the request; if Base is set, only its path.
	URLAt string `json:"url_at,omitempty"`
	Base  string `json:"base,omitempty"`
	// Host and Path are regular expressions that must match the whole host and path of the URL.
	// With URLAt, the URL must have no port, user, query or fragment.
	Host string `json:"host"`
	Path string `json:"path,omitempty"`
	KID  string `json:"kid,omitempty"` // a pattern of the key's id; default [A-Za-z0-9_=+./-]{1,128} without ".."
	// Method is GET (default) or POST. Body, for POST, is a template of {kid} and {param:name};
	// both are inserted as quoted JSON strings.
	Method string            `json:"method,omitempty"`
	Body   string            `json:"body,omitempty"`
	Header map[string]string `json:"header,omitempty"` // values are templates
	// Format is the form of the document: jwks, jwk, pem, certificate (PEM) or spki (base64 of
	// DER). Member is the path to the key, if the document is JSON that wraps it.
	Format string `json:"format"`
	Member string `json:"member,omitempty"`
	// Chain requires a certificate to be issued for this name, and to chain to a root of the
	// system.
	Chain string `json:"chain,omitempty"`
	// MaxAge is how long a fetched key may be used. Default one hour, at most 7 days.
	MaxAge time.Duration `json:"max_age,omitempty"`
}

// Values of KeySource.Format.
const (
	KeysJWKS        = "jwks"
	KeysJWK         = "jwk"
	KeysPEM         = "pem"
	KeysCertificate = "certificate"
	KeysSPKI        = "spki"
)

// KeyRef is the public key that a request names, and the request that fetches it. All of it has
// passed the patterns of the KeySource.
type KeyRef struct {
	ID     string // of the key; "" if the URL alone identifies it
	Method string // GET or POST
	URL    string
	Header http.Header // may hold credentials
	Body   []byte      // may hold credentials
	MaxAge time.Duration
	// Named reports whether the request chooses the document, by the key's id or by the URL. If so,
	// a missing document is the sender's fault. If not, all requests share one document.
	Named bool

	now time.Time // Request.Now of the request that names the key
}
