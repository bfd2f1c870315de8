package verify

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// codec encodes and decodes signatures. base64 is nil for hexadecimal.
type codec struct {
	base64 *base64.Encoding
	raw    *base64.Encoding // the same without padding, where that is accepted
}

func newCodec(encoding string) codec {
	switch encoding {
	case EncodingBase64:
		return codec{base64: base64.StdEncoding.Strict()}
	case EncodingBase64URL:
		return codec{base64: base64.URLEncoding.Strict(), raw: base64.RawURLEncoding.Strict()}
	}
	return codec{}
}

// encode returns the form that Sign sends.
func (c codec) encode(sig []byte) string {
	if c.base64 == nil {
		return hex.EncodeToString(sig)
	}
	return c.base64.EncodeToString(sig)
}

// decode decodes s into dst and reports whether s is exactly len(dst) bytes in
// their one spelling (hexadecimal digits may have either case). It allocates
// nothing.
func (c codec) decode(dst []byte, s string) bool {
	var in [2 * maxSize]byte // hexadecimal is the longest
	if len(s) > len(in) {
		return false
	}
	src := in[:copy(in[:], s)]
	if c.base64 == nil {
		if len(src) != hex.EncodedLen(len(dst)) {
			return false
		}
		_, err := hex.Decode(dst, src)
		return err == nil
	}
	enc := c.base64
	if c.raw != nil && !strings.HasSuffix(s, "=") {
		enc = c.raw
	}
	// The decoder skips line breaks. A text of this length that has some
	// decodes to fewer bytes, and is refused for that.
	if len(src) != enc.EncodedLen(len(dst)) {
		return false
	}
	var out [3 * maxSize / 2]byte
	n, err := enc.Decode(out[:], src)
	return err == nil && n == len(dst) && copy(dst, out[:n]) == n
}
