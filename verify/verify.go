package verify

import (
	"net/http"
	"time"
)

// Request is a request as it was received. Nothing in this package but
// Verifier.Sign changes it.
type Request struct {
	Method string
	// URL is the public URL that the sender was given, for schemes that sign
	// it; it is never rebuilt from what the request itself says. "" if unknown.
	URL      string
	RawQuery string
	// Header has names in canonical form, as net/http makes them.
	Header http.Header
	Body   []byte // the raw bytes, before any decoding
	// Now is when the request was received, which its signed time is compared
	// with.
	Now time.Time
}

// Family is the shape of a scheme.
type Family string

// The scheme families.
const (
	// FamilyHMAC is an HMAC (RFC 2104) over a template of the request, in one
	// header.
	FamilyHMAC Family = "hmac"
	// FamilyStandardWebhooks is Standard Webhooks: an HMAC ("v1") or an
	// Ed25519 signature ("v1a") over "{id}.{timestamp}.{body}". Its headers are
	// webhook-id, webhook-timestamp and webhook-signature, or the same with
	// svix-; a request that mixes the two is malformed. Of the other fields of
	// Scheme it takes ID, Algorithm, SecretEncoding and Timestamp.Tolerance.
	// The specification: https://www.standardwebhooks.com
	FamilyStandardWebhooks Family = "standard-webhooks"
	// FamilyNone checks nothing: every request passes, with or without keys.
	FamilyNone Family = "none"
)

// Values of Scheme.Algorithm. Those without "hmac-" belong to FamilyHMAC, but
// for AlgorithmEd25519.
const (
	AlgorithmSHA1       = "sha1" // weak as a hash, still sound within an HMAC
	AlgorithmSHA256     = "sha256"
	AlgorithmSHA384     = "sha384"
	AlgorithmSHA512     = "sha512"
	AlgorithmHMACSHA256 = "hmac-sha256"
	AlgorithmEd25519    = "ed25519"
)

// Values of Scheme.Encoding, Scheme.Format, Scheme.SecretEncoding and
// Timestamp.Format.
const (
	EncodingHex       = "hex"
	EncodingBase64    = "base64"
	EncodingBase64URL = "base64url"

	FormatPlain = "plain"
	FormatKV    = "kv"

	SecretRaw    = "raw"
	SecretBase64 = "base64"
	SecretHex    = "hex"
	SecretWhsec  = "whsec"

	TimeUnix    = "unix"
	TimeUnixMS  = "unix_ms"
	TimeRFC3339 = "rfc3339"
)

// DefaultTolerance is the tolerance of a scheme that does not set one.
const DefaultTolerance = 5 * time.Minute

// Scheme describes how a sender signs. It is data: the catalog of package
// provider and the settings of a source are made of it. Compile checks it.
type Scheme struct {
	ID        string `json:"id"`                  // unique within its provider, as "sha256"
	Family    Family `json:"family"`              // required
	Header    string `json:"header,omitempty"`    // carries the signature
	Algorithm string `json:"algorithm,omitempty"` // sha1, sha256 (default), sha384, sha512; of Standard Webhooks: hmac-sha256 (default), ed25519
	Encoding  string `json:"encoding,omitempty"`  // hex (default), base64, base64url
	Prefix    string `json:"prefix,omitempty"`    // stands before the encoded signature, as "sha256="
	// Format is the shape of the header's value: plain (default: one
	// signature) or kv ("t=1,v1=aa,v1=bb": pairs split by commas, where those
	// under one of SignatureKeys are signatures and any one may match).
	Format        string   `json:"format,omitempty"`
	SignatureKeys []string `json:"signature_keys,omitempty"`
	// Content is the signed bytes: a template of {body}, {timestamp}, {url},
	// {method} and {header:Name}; \n is a line feed. Default {body}. It must
	// hold {body}, and {timestamp} if Timestamp is set. ({id} is known to
	// Standard Webhooks only, whose content is fixed.)
	//
	// A value of {header:Name} must not contain the character of the template
	// that stands beside it, as the '.' of "{header:Name}.{body}": it would
	// let bytes move between a signed id and a signed body.
	Content string `json:"content,omitempty"`
	// SecretEncoding says how the secret's text becomes key bytes: raw
	// (default), base64, hex, or whsec (an optional prefix whsec_, then base64;
	// the default of Standard Webhooks).
	SecretEncoding string     `json:"secret_encoding,omitempty"`
	Timestamp      *Timestamp `json:"timestamp,omitempty"`
}

// Timestamp says where a scheme carries the time of signing.
type Timestamp struct {
	// At is a location: header:Name or header:Name#key, as
	// "header:Stripe-Signature#t". For Standard Webhooks it is fixed, and may
	// be left empty.
	At string `json:"at"`
	// Format is unix (seconds in decimal digits, the default), unix_ms or
	// rfc3339.
	Format string `json:"format,omitempty"`
	// Tolerance is how far the time may lie from Request.Now, in both
	// directions and inclusive, both cut to the resolution of Format. 0 means
	// DefaultTolerance.
	Tolerance time.Duration `json:"tolerance,omitempty"`
}
