package provider

// Handshake describes a request that a provider sends to check or set up an endpoint. Such a
// request holds no event. It is plain data: each request is compared with Spec.Handshakes, in
// order, before it counts as a delivery.
//
// Templates in it may hold {token}, {param:name}, {digest} and {url} (the source's public URL).
type Handshake struct {
	ID     string `json:"id"`               // such as "url-verification"; unique within the provider
	Method string `json:"method,omitempty"` // GET, HEAD, OPTIONS or POST (default)
	// When lists conditions. A request is this handshake only if all of them hold.
	When []Condition `json:"when,omitempty"`
	// Signed is "always" (the request is verified like a delivery, and refused with 401 if
	// invalid), "if_present" (it is verified if it has the signature's header) or "" (it has no
	// signature).
	Signed string `json:"signed,omitempty"`
	// Token is the location of the value that the answer repeats or signs: query:name, header:Name,
	// body:path or form:field; "" for none. It is read strictly.
	Token string `json:"token,omitempty"`
	// Pattern is a regular expression (RE2) that must match the whole token; otherwise the answer
	// is 400. The default is 1 to 512 printable ASCII characters. With a Digest a pattern is
	// required, and must not match anything that could be a signed delivery: otherwise a challenge
	// could obtain its signature.
	Pattern string `json:"pattern,omitempty"`
	// Check lists conditions on shared secrets, compared in constant time. If one does not hold,
	// the answer is 403. Equals is a template of {param:name}; the parameter must be set.
	Check []Condition `json:"check,omitempty"`
	// Digest computes {digest}.
	Digest *Digest `json:"digest,omitempty"`
	// Bare leaves out the body of refusals of a request that When matches.
	Bare bool `json:"bare,omitempty"`
	// Delivers is the location of a secret that the provider sends. The secret is accepted only
	// while an operator has armed the source; otherwise the answer is 403.
	Delivers string `json:"delivers,omitempty"`
	// Confirm is a URL to fetch by GET once the signature and Check are right. The answer does not
	// wait for it. It is a template that may also hold {json:path}, a value of the body. Host is a
	// regular expression for its host.
	Confirm string `json:"confirm,omitempty"`
	Host    string `json:"host,omitempty"`

	Answer Answer `json:"answer"`
}

// Values of Handshake.Signed.
const (
	SignedAlways    = "always"
	SignedIfPresent = "if_present"
)

// Condition is a condition on one location of a request: a single header:Name, query:name,
// form:field or body:path, or "body:" for the raw body. Without Equals, Matches and Absent the
// location must be present.
//
// A text or number of a JSON document compares as its text, and any other value as its JSON. Null
// counts as absent. A value that occurs twice meets no condition, and neither does a body of more
// than MaxHandshakeBody bytes.
type Condition struct {
	At      string `json:"at"`
	Equals  string `json:"equals,omitempty"`
	Matches string `json:"matches,omitempty"` // a regular expression (RE2) for the whole value
	Absent  bool   `json:"absent,omitempty"`  // the location must be absent
}

// Digest signs the token of a handshake.
type Digest struct {
	// Algorithm is hmac-sha256 or hmac-sha1 (keyed with the source's first secret), or sha256.
	Algorithm string `json:"algorithm"`
	Encoding  string `json:"encoding,omitempty"` // hex (default) or base64
	Content   string `json:"content"`            // a template, such as "{token}"
	// SecretEncoding says how the secret becomes the key: raw (default) or sha1, as in
	// verify.Scheme.SecretEncoding.
	SecretEncoding string `json:"secret_encoding,omitempty"`
	// Signs is the location that the provider signs in a delivery; "body:" by default. If Pattern
	// matches its value, the request is not a delivery, because anyone can obtain its signature
	// from a handshake.
	Signs string `json:"signs,omitempty"`
}

// Answer is the answer to a handshake. Its texts are templates. At most one of Body and JSON is
// set.
type Answer struct {
	Status      int               `json:"status,omitempty"`       // 200 by default
	ContentType string            `json:"content_type,omitempty"` // text/plain; charset=utf-8 by default; application/json with JSON
	Header      map[string]string `json:"header,omitempty"`
	Body        string            `json:"body,omitempty"`
	JSON        map[string]any    `json:"json,omitempty"` // its texts are templates; other values stay
}
