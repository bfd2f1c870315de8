package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// content compiles the families that sign Scheme.Content.
func (c *compiler) content(s *Scheme) {
	f := &content{each: c.each(s), anyPort: s.AnyPort}
	c.v.method = f
	if s.Document != "" {
		var err error
		if c.v.document, err = parsePlace(s.Document, locate.Form); err != nil {
			c.fault("document", "%s", err)
		}
	}
	f.carrier = c.carrier(s)
	c.algorithm(s, f)
	c.unset("jwt", s.JWT != nil, fmt.Sprintf("has no meaning for the family %s: leave it out", s.Family))
	c.format(s, f)
	c.signedContent(s, f)
	f.require = c.require(s)
	c.coverage(s, f)
	c.timestamp(s, f)
	f.keyID = c.keyName(s)
}

func (c *compiler) algorithm(s *Scheme, f *content) {
	problem := fmt.Sprintf("has no meaning for the family %s: leave it out", s.Family)
	encodings := []string{EncodingHex, EncodingBase64, EncodingBase64URL, EncodingBase64Hex, EncodingURLEscaped}
	if s.Family == FamilySignature {
		f.public = c.oneOf("algorithm", s.Algorithm, "", AlgorithmEd25519, AlgorithmECDSASHA256, AlgorithmECDSASHA1,
			AlgorithmRSASHA1, AlgorithmRSASHA256, AlgorithmRSASHA512, AlgorithmRSAPSSSHA512)
		if s.Algorithm == "" {
			c.fault("algorithm", "name the public-key algorithm, as ed25519 or rsa-sha256")
		}
		c.unset("secret_encoding", s.SecretEncoding != "", problem)
		f.codec = codec(c.oneOf("encoding", s.Encoding, encodings...))
		c.keySource(s)
		return
	}
	algorithm := c.oneOf("algorithm", s.Algorithm, AlgorithmSHA256, AlgorithmSHA1, AlgorithmSHA384, AlgorithmSHA512, AlgorithmMD5)
	f.setHash(algorithm)
	f.keyed = s.Family == FamilyHMAC
	f.codec = codec(c.oneOf("encoding", s.Encoding, encodings...))
	f.secret = c.oneOf("secret_encoding", s.SecretEncoding, SecretRaw, SecretBase64, SecretHex, SecretWhsec, SecretSHA1, SecretNFKD, SecretHTML)
	c.unset("key_id", s.KeyID != "", problem)
	c.unset("keys", s.Keys != nil, problem)
	if s.Family == FamilyDigest && s.Weak == "" {
		c.fault("weak", "say why the scheme is weak: a plain hash always is")
	}
}

func (c *compiler) format(s *Scheme, f *content) {
	f.format = c.oneOf("format", s.Format, FormatPlain, FormatKV, FormatList, FormatGroups, FormatPairs, FormatJSON)
	f.keys = slices.Clone(s.SignatureKeys)
	f.sep = s.Separator
	listed := f.format == FormatKV || f.format == FormatGroups
	switch f.format {
	case FormatKV, FormatList, FormatGroups, FormatPairs:
		if f.sep == "" {
			f.sep = map[bool]string{true: "&", false: ","}[f.format == FormatPairs]
		}
		if len(f.sep) != 1 || f.sep[0] < ' ' || f.sep[0] > '~' || f.sep == "=" || f.sep == " " && f.format != FormatKV {
			c.fault("separator", "%q is not one character that divides elements", s.Separator)
		}
	default:
		c.unset("separator", s.Separator != "", "the format has no elements to separate")
	}
	switch {
	case listed && len(f.keys) == 0:
		c.fault("signature_keys", "name at least one key that holds a signature, as the format is %s", f.format)
	case (f.format == FormatPairs || f.format == FormatJSON) && len(f.keys) != 1:
		c.fault("signature_keys", "name exactly one, as the format is %s", f.format)
		f.keys = []string{""}
	case (f.format == FormatPlain || f.format == FormatList) && len(f.keys) > 0:
		c.fault("signature_keys", "the format %s has no keys", f.format)
	}
	for i, key := range f.keys {
		switch _, _, ok := locate.CutPair(key + "="); {
		case listed && (!ok || strings.ContainsAny(key, f.sep+"=")):
			c.fault("signature_keys", "%q cannot be a key of a list key=value%skey=value", key, f.sep)
		case f.format == FormatPairs:
			f.keys[i] = c.pairID(key)
		}
	}
	if listed && strings.Contains(s.Prefix, f.sep) {
		c.fault("prefix", "it holds a character that cannot stand in such a header")
	}
}

// pairID returns the value of the parameter that selects our pair.
func (c *compiler) pairID(param string) string {
	if !slices.ContainsFunc(c.params, func(p Param) bool {
		return p.Name == param && (p.Need == "" || p.Need == NeedSignature)
	}) {
		c.fault("signature_keys", "%q is not one of the scheme's params with need signature", param)
	}
	return c.values[param]
}

func (c *compiler) signedContent(s *Scheme, f *content) {
	text := s.Content
	if text == "" {
		text = "{body}"
	}
	before := len(c.faults)
	parts := c.template("content", text)
	if len(c.faults) > before {
		return
	}
	f.arithmetic.content = parts
	if len(parts) == 0 {
		c.fault("content", "it is empty")
	}
	if has(parts, partID) {
		c.fault("content", "{id} is known to standard-webhooks only: write {header:Name}")
	}
	if has(parts, partKID) {
		c.fault("content", "{kid} is known to keys only: write {header:Name}")
	}
	if has(parts, partTimestamp, partMercadoPago) && s.Timestamp == nil {
		c.fault("content", "it holds {timestamp}: set timestamp.at to the location of the time")
	}
	if f.at != nil && (f.at.ref.Kind == locate.Body || f.at.ref.Kind == locate.Form) && hashesBody(parts) {
		c.fault("content", "it holds the body, but the body holds the signature: name the signed fields")
	}
	if has(parts, partSecret) != (s.Family == FamilyDigest) {
		c.fault("content", "{secret} belongs in the content of the family digest, and only there")
	}
	if has(parts, partItem) && s.Each == "" {
		c.fault("content", "it holds {item:...}: set each to the location of the items")
	}
	// Hashing the whole body once per item would take time quadratic in its size.
	if s.Each != "" && anyPart(parts, func(p *part) bool {
		return p.kind != partLiteral && p.kind != partItem && p.kind != partHeader && p.kind != partTimestamp && p.kind != partSecret
	}) {
		c.fault("content", "with each, it can hold {item:...}, {header:...} and {timestamp} only")
	}
	c.unset("any_port", s.AnyPort && !anyPart(parts, (*part).needsURL), "the content holds no {url}: leave it out")
}

// hashesBody reports whether the signature covers the bytes of the body themselves.
func hashesBody(parts []part) bool {
	return has(parts, partBody, partSHA256Body, partSHA256Base64Body, partSHA256RawBody, partBase64Body, partBase64URLBody, partCRC32Body)
}

// coverage reports a content that does not sign the body, unless the scheme is partial.
func (c *compiler) coverage(s *Scheme, f *content) {
	parts := f.arithmetic.content
	if parts == nil || s.Partial != "" {
		return
	}
	whole := anyPart(parts, (*part).wholeBody) || bodyHashed(parts, f.require, locate.Ref{Kind: locate.Body})
	if !whole {
		c.fault("content", "it must hold {body}, or partial must name the unsigned parts: "+
			"a signature that does not cover the body fits any body")
	}
}

func (c *compiler) timestamp(s *Scheme, f *content) {
	t := s.Timestamp
	if t == nil {
		c.unset("format", f.format == FormatGroups, "every group has a time of its own: set timestamp")
		return
	}
	rule := &timeRule{format: c.oneOf("timestamp.format", t.Format, TimeUnix, TimeUnixMS, TimeRFC3339, TimeAny, TimeISO, TimeHTTPDate)}
	rule.tolerance = c.tolerance(t)
	f.time = rule
	at, err := parsePlace(t.At, locate.Header, locate.Body, locate.Form, locate.Query, locate.Item)
	switch {
	case err != nil:
		c.fault("timestamp.at", "%s", err)
		return
	case at.ref.Kind == locate.Item && s.Each == "" || at.ref.Kind == locate.Body && at.ref.Name == "":
		c.fault("timestamp.at", "%q is not a location of the request", t.At)
		return
	}
	rule.at, rule.ref, rule.number = at, at.ref, t.Number
	if t.Number && (at.ref.Kind != locate.Body || rule.format != TimeUnix && rule.format != TimeUnixMS) {
		c.fault("timestamp.number", "only a body:path in the format unix or unix_ms can be a number")
	}
	if parts := f.arithmetic.content; parts != nil && !has(parts, partTimestamp, partMercadoPago) && !signsTime(parts, at.ref) {
		c.fault("timestamp.at", "the content holds no {timestamp}: a time that is not signed protects nothing")
		return
	}
	if f.holds(at.ref) {
		c.timeAmongSignatures(s, f)
	} else if f.format == FormatGroups {
		c.fault("timestamp.at", "with groups, it must be a key in the signatures' header")
	}
}

// signsTime reports whether parts sign the time at ref through a placeholder other than
// {timestamp}.
func signsTime(parts []part, ref locate.Ref) bool {
	return anyPart(parts, func(p *part) bool {
		if p.kind == partSignedHeaders {
			return samePlace(ref, locate.Ref{Kind: locate.Header, Name: contentfulTime})
		}
		return p.chosen() && samePlace(p.ref(), ref) || (ref.Kind == locate.Body || ref.Kind == locate.Form) && p.wholeBody() || p.fieldOf(ref)
	})
}

// timeAmongSignatures compiles a time that stands in the same header or field as the signatures.
func (c *compiler) timeAmongSignatures(s *Scheme, f *content) {
	key, at := f.time.ref.Key, s.Timestamp.At
	f.time.at = nil
	switch {
	case len(f.headers) > 1:
		c.fault("timestamp.at", "%q stands among signatures, but several headers can carry them: their times could differ", at)
	case f.format == FormatList && key == "0":
		f.timed = true
	case f.format == FormatList:
		c.fault("timestamp.at", "%q is not the first element of the list: write #0", at)
	case f.format != FormatKV && f.format != FormatGroups:
		c.fault("timestamp.at", "%q is the signature's header, whose format is not kv", at)
	case key == "" || slices.Contains(f.keys, key):
		c.fault("timestamp.at", "%q is where the signature stands", at)
	default:
		f.timeKey = key
	}
}

func (c *compiler) keyName(s *Scheme) *keyName {
	if s.KeyID == "" {
		return nil
	}
	at, err := parsePlace(s.KeyID, locate.Header)
	if err != nil {
		c.fault("key_id", "%s", err)
		return nil
	}
	k := &keyName{header: at.ref.Name}
	if at.ref.Key != "" {
		path, err := locate.ParsePath(at.ref.Key)
		if err != nil {
			c.fault("key_id", "%s", err)
		}
		k.member = &path
	}
	return k
}
