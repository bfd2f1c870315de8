package verify

import (
	"encoding/json"
	"net/http"
	"time"
)

// Family is the shape of a scheme.
type Family string

// The scheme families.
const (
	// FamilyHMAC is an HMAC (RFC 2104) over Scheme.Content.
	FamilyHMAC Family = "hmac"
	// FamilyDigest is a plain hash over Scheme.Content, which holds {secret}. It is
	// weaker than an HMAC, and always Scheme.Weak.
	FamilyDigest Family = "digest"
	// FamilySignature is a signature by a private key over Scheme.Content: Ed25519,
	// ECDSA or RSA.
	FamilySignature Family = "signature"
	// FamilyStandardWebhooks is Standard Webhooks: an HMAC ("v1") or an
	// Ed25519 signature ("v1a") over "{id}.{timestamp}.{body}". Its headers are
	// webhook-id, webhook-timestamp and webhook-signature, or the same with
	// svix-; a request that mixes the two is malformed. Of the other fields of
	// Scheme it takes ID, Algorithm, SecretEncoding and Timestamp.Tolerance.
	// The specification: https://www.standardwebhooks.com
	FamilyStandardWebhooks Family = "standard-webhooks"
	// FamilyToken is a shared secret that is sent as it is.
	FamilyToken Family = "token"
	// FamilyBasic is HTTP basic authentication (RFC 7617). The secret is
	// user:password.
	FamilyBasic Family = "basic"
	// FamilyJWT is a JSON Web Token (RFC 7519); Scheme.JWT says what it must claim.
	FamilyJWT Family = "jwt"
	// FamilyJWS is a JSON Web Signature with detached content (RFC 7515, appendix
	// F): its payload is Scheme.Content.
	FamilyJWS Family = "jws"
	// FamilyNone checks nothing: every request passes, with or without keys.
	FamilyNone Family = "none"
)

// Values of Scheme.Algorithm. FamilyHMAC and FamilyDigest take hashes;
// FamilySignature and FamilyJWS public-key algorithms; Standard Webhooks
// hmac-sha256 and ed25519. Of a JWT they stand in JWT.Algorithms, by the names of
// RFC 7518.
const (
	AlgorithmSHA1       = "sha1" // weak as a hash, still sound within an HMAC
	AlgorithmSHA256     = "sha256"
	AlgorithmSHA384     = "sha384"
	AlgorithmSHA512     = "sha512"
	AlgorithmMD5        = "md5" // weak
	AlgorithmHMACSHA256 = "hmac-sha256"

	AlgorithmEd25519      = "ed25519"
	AlgorithmECDSASHA256  = "ecdsa-p256-sha256" // ASN.1 DER signatures, as the next
	AlgorithmECDSASHA1    = "ecdsa-p256-sha1"
	AlgorithmRSASHA1      = "rsa-sha1" // PKCS #1 v1.5, as the next two
	AlgorithmRSASHA256    = "rsa-sha256"
	AlgorithmRSASHA512    = "rsa-sha512"
	AlgorithmRSAPSSSHA512 = "rsa-pss-sha512"
)

// Values of Scheme.Encoding, Scheme.Format, Scheme.SecretEncoding and
// Timestamp.Format.
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

	TimeUnix    = "unix"
	TimeUnixMS  = "unix_ms"
	TimeRFC3339 = "rfc3339"
	TimeAny     = "any" // one of the three, told apart by its form
)

// DefaultTolerance is the tolerance of a scheme that does not set one.
const DefaultTolerance = 5 * time.Minute

// Scheme describes how a sender signs. It is data: the catalog of package
// provider and the settings of a source are made of it. Compile checks it, and
// refuses fields that have no meaning for the family.
type Scheme struct {
	ID     string `json:"id"`     // unique within its provider, as "sha256"
	Family Family `json:"family"` // required
	// Weak says why nobody should choose the scheme who has the choice. "" means
	// that it is sound. A weak one is used only where it is named.
	Weak string `json:"weak,omitempty"`

	// Where the signature (token, JWT) stands: in a header, or else at a location
	// body:path, form:field, query:name or item:path, or body: for the body itself.
	Header string `json:"header,omitempty"`
	At     string `json:"at,omitempty"`
	// MoreHeaders may carry further signatures, as of a second key while it
	// is replaced. Of these and Header at least one must be there, each at most once.
	MoreHeaders []string `json:"more_headers,omitempty"`
	// Each is the batch (as body:path, see provider.EventRules.Batch) of
	// which every item carries its own signature or token, At item:path. All must
	// be right, and a batch without items is malformed: nobody has signed it.
	Each string `json:"each,omitempty"`
	// Prefix stands before the encoded signature or the token, as "sha256="; with
	// PrefixOptional it may be left out.
	Prefix         string `json:"prefix,omitempty"`
	PrefixOptional bool   `json:"prefix_optional,omitempty"`
	// Format is the shape of the value:
	//	plain  (default) one signature
	//	kv     "t=1,v1=aa,v1=bb": pairs split by Separator (default ','; where it is
	//	       set, blanks around a pair are cut off); those under one of
	//	       SignatureKeys are signatures, and any one may match
	//	list   signatures split by Separator; with a Timestamp at header:Name#0 the
	//	       first element is the time
	//	groups several kv, split by spaces, each with its own time
	//	pairs  "id|aa&id|bb": the signature of the pair whose id is the
	//	       parameter SignatureKeys[0]
	//	json   base64 of a JSON object; SignatureKeys[0] is the member
	Format        string   `json:"format,omitempty"`
	Separator     string   `json:"separator,omitempty"`
	SignatureKeys []string `json:"signature_keys,omitempty"`

	Algorithm string `json:"algorithm,omitempty"` // of hmac and digest: sha256 by default; of Standard Webhooks: hmac-sha256
	Encoding  string `json:"encoding,omitempty"`  // hex (default), base64, base64url, base64hex, urlescaped
	// Content is the signed bytes: a template. \n is a line feed. Default {body}.
	// A value that stands in braces must not contain the character of the
	// template beside it, as the '.' of "{header:Name}.{body}": it would let bytes
	// move between a signed id and a signed body. Its placeholders:
	//	{body} {method} {timestamp}, as they were received
	//	{url} {path} {path_query}    of Request.URL; {url_unescaped} after undoing a fixed set of escapes (HubSpot)
	//	{header:Name} {query:name}
	//	{json:path} {form:field} {item:path}   as text; {item:...} that is absent is ""
	//	{item_free:path}             the one value that may contain the character beside it
	//	{param:name}                 see Params
	//	{secret}                     FamilyDigest only
	//	{sha256:body} {sha256_base64:body} {sha256_raw:body} {sha256:url} {crc32:body} {base64:body} {base64url:body}
	//	{sorted_form} {sorted_query} {php_form} {sns} {signed_headers} {qsh} {vonage_params} {mercado_pago}
	//	                             what one provider each has made up; see content.go
	// It must cover the body, or the scheme is Partial.
	Content string `json:"content,omitempty"`
	// Partial says what of the request is not signed, for people: "the body". Without
	// it a scheme that does not cover the body does not compile.
	Partial string `json:"partial,omitempty"`
	// AnyPort tries Content with and without the port in {url}.
	AnyPort bool `json:"any_port,omitempty"`
	// SecretEncoding says how the secret's text becomes key bytes: raw
	// (default), base64, hex, whsec (an optional prefix whsec_, then base64;
	// the default of Standard Webhooks), sha1 or nfkd.
	SecretEncoding string     `json:"secret_encoding,omitempty"`
	Timestamp      *Timestamp `json:"timestamp,omitempty"`
	// Require must hold besides the signature, and is looked at after it.
	Require []Requirement `json:"require,omitempty"`
	// Params are what the scheme needs to know beside secrets and keys.
	Params []Param `json:"params,omitempty"`
	JWT    *JWT    `json:"jwt,omitempty"` // FamilyJWT only; required there
	// KeyID is where the request names the key that it was signed with: header:Name,
	// header:Name#member of a JSON header, or "" (of JWT and JWS: their kid).
	KeyID string `json:"key_id,omitempty"`
	// Keys says where public keys are got; nil: they must be given.
	Keys *KeySource `json:"keys,omitempty"`

	// Values are those of Params: what the source was set up with.
	Values map[string]string `json:"-"`
}

// Param is one thing that a scheme needs to know, such as the id of a webhook.
type Param struct {
	Name  string `json:"name"`
	About string `json:"about"` // what it is and where a user finds it
	// Need is signature (default): without it nothing can be verified; source: a
	// signature can be, but says too little, so a source must set it; or optional:
	// what needs it is left out.
	Need string `json:"need,omitempty"`
	// Sets are the only values that the parameter may have, each with the fields of
	// the Scheme that it changes, as JSON; nil: any text.
	Sets map[string]json.RawMessage `json:"sets,omitempty"`
}

// Values of Param.Need.
const (
	NeedSignature = "signature"
	NeedSource    = "source"
	NeedOptional  = "optional"
)

// Requirement is something that a request must say besides being signed. One
// whose parameter is not set is left out.
type Requirement struct {
	At     string `json:"at"`     // a location: header:Name, body:path, query:name, item:path
	Equals string `json:"equals"` // a template, as Scheme.Content
	// Each is a batch (see provider.EventRules.Batch) of which every item must say
	// it, At item:path. There must be at least one.
	Each string `json:"each,omitempty"`
}

// Timestamp says where a scheme carries the time of signing.
type Timestamp struct {
	// At is a location: header:Name or header:Name#key, as
	// "header:Stripe-Signature#t"; header:Name#0 of the format list; or body:path,
	// form:field, query:name. For Standard Webhooks it is fixed, and may
	// be left empty. Of a JWT it is jwt:iat or jwt:exp.
	At string `json:"at"`
	// Format is unix (seconds in decimal digits, the default), unix_ms,
	// rfc3339 or any.
	Format string `json:"format,omitempty"`
	// Tolerance is how far the time may lie from Request.Now, in both
	// directions and inclusive, both cut to the resolution of Format. 0 means
	// DefaultTolerance.
	Tolerance time.Duration `json:"tolerance,omitempty"`
}

// JWT says what a token must be. Its exp and nbf always hold, with a leeway of
// Timestamp.Tolerance, or of a minute without a Timestamp.
type JWT struct {
	// Algorithms are those that are accepted (RFC 7518: HS256, RS256, ES256...). All
	// must be of one kind of key.
	Algorithms []string `json:"algorithms"`
	// Claims that must be there with these values. At least one must depend on the
	// request, or the scheme is Scheme.Partial.
	Claims []Claim `json:"claims,omitempty"`
	// Expires demands an exp.
	Expires bool `json:"expires,omitempty"`
}

// Claim is one claim of a JWT.
type Claim struct {
	Name string `json:"name"`
	// Equals is a template, as Scheme.Content. Where the claim is a list, one of its
	// elements must be equal. A claim whose parameter is not set is left out.
	Equals string `json:"equals"`
	// Or are further values that are as good.
	Or []string `json:"or,omitempty"`
	// WithBody demands the claim only of requests that have a body.
	WithBody bool `json:"with_body,omitempty"`
}

// KeySource says where public keys are got: always by https, from hosts that are
// named here. Nothing in this package gets them; see Verifier.KeyRef.
type KeySource struct {
	// URL is a template of {kid} and {param:name}. "" means that the request says
	// where: URLAt.
	URL string `json:"url,omitempty"`
	// URLAt is where the request has the URL, or, behind Base, its path.
	URLAt string `json:"url_at,omitempty"`
	Base  string `json:"base,omitempty"`
	// Host and Path are regular expressions that the URL's host and path match as a
	// whole. Port, user, query and fragment must be absent where URLAt is used.
	Host string `json:"host"`
	Path string `json:"path,omitempty"`
	KID  string `json:"kid,omitempty"` // likewise for the key's id; default [A-Za-z0-9_=+./-]{1,128} without ".."
	// Method is GET (default) or POST, with Body, a template of {kid} and
	// {param:name}; both values are quoted as JSON strings.
	Method string            `json:"method,omitempty"`
	Body   string            `json:"body,omitempty"`
	Header map[string]string `json:"header,omitempty"` // templates
	// Format is what is found there: jwks, jwk, pem, certificate (PEM), spki (base64
	// of DER); Member is the path in a JSON document to it.
	Format string `json:"format"`
	Member string `json:"member,omitempty"`
	// Chain demands of a certificate that it chains to a root of the system and is for this name.
	Chain string `json:"chain,omitempty"`
	// MaxAge is how long what was got may be used. Defaults to an hour; at most 7 days.
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

// KeyRef is the public key that a request says it was signed with, and where that
// is got. Everything in it has passed the KeySource.
type KeyRef struct {
	ID     string // of the key; "" if the URL alone tells
	Method string // GET or POST
	URL    string
	Header http.Header // may hold credentials
	Body   []byte      // likewise
	MaxAge time.Duration
	// Named says that the request decides what is got, by the key's id or by the URL,
	// so that where nothing is there the sender is wrong; else it is one document for all.
	Named bool

	now time.Time // when the request that refers to it was received
}
