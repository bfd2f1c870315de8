package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
)

// codec encodes and decodes signatures. It is a value of Scheme.Encoding.
type codec string

var (
	stdStrict    = base64.StdEncoding.Strict()
	urlStrict    = base64.URLEncoding.Strict()
	rawURLStrict = base64.RawURLEncoding.Strict()
)

// encode returns the encoding that Sign sends.
func (c codec) encode(sig []byte) string {
	switch c {
	case EncodingBase64:
		return stdStrict.EncodeToString(sig)
	case EncodingBase64URL:
		return rawURLStrict.EncodeToString(sig) // as JavaScript's libraries, whose verifiers compare texts
	case EncodingBase64Hex:
		return stdStrict.EncodeToString(hex.AppendEncode(nil, sig))
	case EncodingURLEscaped:
		return url.QueryEscape(stdStrict.EncodeToString(sig))
	}
	return hex.EncodeToString(sig)
}

// decode decodes s into dst and returns the number of bytes. It fails if they exceed len(dst), or
// if s is not the one accepted spelling; only the case of hexadecimal digits and the padding of
// base64url are free. For at most maxSize bytes it allocates nothing, except for base64hex and
// urlescaped.
func (c codec) decode(dst []byte, s string) (n int, ok bool) {
	switch c {
	case EncodingBase64:
		return decodeInto(dst, stdStrict, s)
	case EncodingBase64URL:
		return decodeURL(dst, s)
	case EncodingBase64Hex:
		digits := make([]byte, 2*len(dst))
		n, ok := decodeInto(digits, stdStrict, s)
		if !ok || n%2 != 0 || !bytes.Equal(digits[:n], bytes.ToLower(digits[:n])) {
			return 0, false
		}
		n, err := hex.Decode(dst, digits[:n])
		return n, err == nil
	case EncodingURLEscaped:
		plain, err := url.PathUnescape(s) // unlike QueryUnescape, keeps '+'
		if err != nil {
			return 0, false
		}
		if strings.ContainsAny(plain, "-_") {
			return decodeURL(dst, plain)
		}
		return decodeInto(dst, stdStrict, plain)
	}
	if len(s)%2 != 0 || len(s)/2 > len(dst) {
		return 0, false
	}
	var in [2 * maxSize]byte
	n, err := hex.Decode(dst, append(in[:0], s...))
	return n, err == nil
}

func decodeURL(dst []byte, s string) (n int, ok bool) {
	if strings.HasSuffix(s, "=") {
		return decodeInto(dst, urlStrict, s)
	}
	return decodeInto(dst, rawURLStrict, s)
}

func decodeInto(dst []byte, enc *base64.Encoding, s string) (n int, ok bool) {
	if enc.DecodedLen(len(s)) > len(dst)+3 {
		return 0, false
	}
	var in, out [2 * maxSize]byte
	decoded := out[:]
	if len(s) > len(in) {
		decoded = make([]byte, len(s))
	}
	n, err := enc.Decode(decoded, append(in[:0], s...))
	// The decoder skips line breaks: such a text is longer than the encoding of its bytes.
	if err != nil || n > len(dst) || enc.EncodedLen(n) != len(s) {
		return 0, false
	}
	return copy(dst, decoded[:n]), true
}
