package provider

// Handshake is a request by which a provider checks or sets up an endpoint, and
// which holds no event. It is data; Spec.Handshakes are tried in order before
// a request is taken for a delivery.
//
// A template here holds {token}, {param:name}, {digest} and {url} (the source's
// public URL).
type Handshake struct {
	ID     string `json:"id"`               // as "url-verification"; unique within the provider
	Method string `json:"method,omitempty"` // GET, HEAD, OPTIONS or POST (default)
	// When are conditions that all must hold, or else the request is none of these.
	When []Condition `json:"when,omitempty"`
	// Signed says what is known of its signature: "always", it is verified as a
	// delivery is, and refused 401; "if_present", it is verified where the
	// signature's header is there; "" it has none.
	Signed string `json:"signed,omitempty"`
	// Token is the location of what the answer must repeat or sign, read strictly:
	// query:name, header:Name, body:path, form:field. "" for none.
	Token string `json:"token,omitempty"`
	// Pattern is a regular expression (RE2) that the token must match as a whole;
	// what does not is answered 400. Defaults to 1 to 512 printable ASCII
	// characters. With a Digest it is required, and must exclude all that could be
	// a signed delivery: a challenge must not be a signing oracle.
	Pattern string `json:"pattern,omitempty"`
	// Check are conditions on shared secrets, compared in constant time; 403 where one
	// does not hold. Equals is a template of {param:name}, which must be set.
	Check []Condition `json:"check,omitempty"`
	// Digest is what {digest} stands for.
	Digest *Digest `json:"digest,omitempty"`
	// Bare answers refusals of a request that When matches without a body.
	Bare bool `json:"bare,omitempty"`
	// Delivers is the location of a secret that the provider hands over here. It is
	// taken only while an operator has armed the source; else the answer is 403.
	Delivers string `json:"delivers,omitempty"`
	// Confirm is a URL that is fetched, by GET, after the signature and Check were found
	// right. A template, in which {json:path} is of the body. Host is a regular
	// expression for its host. The answer does not wait for it.
	Confirm string `json:"confirm,omitempty"`
	Host    string `json:"host,omitempty"`

	Answer Answer `json:"answer"`
}

// Values of Handshake.Signed.
const (
	SignedAlways    = "always"
	SignedIfPresent = "if_present"
)

// Condition is on one location of a request: one single header:Name, query:name,
// form:field or body:path, or "body:" for the bytes of the body as they are. Without
// Equals, Matches and Absent the location must be there. A text or number of a JSON
// document counts as its text, anything else as the JSON that stands there; null
// counts as absent. What occurs twice fulfils no condition, and neither does a body
// of more than MaxHandshakeBody bytes.
type Condition struct {
	At      string `json:"at"`
	Equals  string `json:"equals,omitempty"`
	Matches string `json:"matches,omitempty"` // a regular expression (RE2), as a whole
	Absent  bool   `json:"absent,omitempty"`  // nothing may stand there
}

// Digest signs the token of a handshake.
type Digest struct {
	// Algorithm is hmac-sha256, hmac-sha1 (keyed with the source's first secret) or sha256.
	Algorithm string `json:"algorithm"`
	Encoding  string `json:"encoding,omitempty"` // hex (default) or base64
	Content   string `json:"content"`            // a template, as "{token}"
	// SecretEncoding says how the secret becomes the key: raw (default) or sha1, see
	// verify.Scheme.SecretEncoding.
	SecretEncoding string `json:"secret_encoding,omitempty"`
	// Signs is the location of what the provider signs of a delivery, "body:" by
	// default. Where the Pattern matches it the request is no delivery, because
	// whoever asks as for a handshake could have got its signature.
	Signs string `json:"signs,omitempty"`
}

// Answer is the answer to a handshake. Its texts are templates. At most one of
// Body and JSON is set.
type Answer struct {
	Status      int               `json:"status,omitempty"`       // 200 by default
	ContentType string            `json:"content_type,omitempty"` // text/plain; charset=utf-8, or of JSON application/json
	Header      map[string]string `json:"header,omitempty"`
	Body        string            `json:"body,omitempty"`
	JSON        map[string]any    `json:"json,omitempty"` // its texts are templates, its numbers stay
}
