package verify

import "fmt"

// jws is FamilyJWS. The embedded content is the detached payload.
type jws struct {
	content
	algorithms []string
}

// joseNames maps values of Scheme.Algorithm to their names in RFC 7518, 8037 and 9864.
var joseNames = map[string][]string{
	AlgorithmEd25519:      {"EdDSA", "Ed25519"},
	AlgorithmECDSASHA256:  {"ES256"},
	AlgorithmRSASHA256:    {"RS256"},
	AlgorithmRSASHA512:    {"RS512"},
	AlgorithmRSAPSSSHA512: {"PS512"},
}

func (c *compiler) jws(s *Scheme) {
	c.unused(s, "has no meaning for the family jws: leave it out", "header", "at", "prefix", "prefix_optional", "partial",
		"algorithm", "content", "timestamp", "require", "keys")
	m := &jws{}
	c.v.method = m
	m.format = FormatPlain
	m.carrier = c.carrier(s)
	m.public = c.oneOf("algorithm", s.Algorithm, "", AlgorithmEd25519, AlgorithmECDSASHA256,
		AlgorithmRSASHA256, AlgorithmRSASHA512, AlgorithmRSAPSSSHA512)
	if s.Algorithm == "" {
		c.fault("algorithm", "name the public-key algorithm, as ed25519 or rsa-sha512")
	}
	m.algorithms = joseNames[m.public]
	c.signedContent(s, &m.content)
	m.require = c.require(s)
	c.coverage(s, &m.content)
	c.timestamp(s, &m.content)
}

// token returns the request's signature, parsed but not verified. Its payload must be detached.
func (m *jws) token(req *Request, s *signed) (*compact, error) {
	t, err := m.compact(req, s, m.algorithms)
	if err == nil && t.payload != "" {
		err = fmt.Errorf("%w: %s holds a payload of its own", ErrMalformed, m.where())
	}
	return t, err
}

func (m *jws) namedKey(req *Request) (string, error) {
	t, err := m.token(req, &signed{})
	if err != nil {
		return "", err
	}
	return t.kid, nil
}

// plausible implements keyNamer.
func (m *jws) plausible(req *Request) error {
	var s signed
	_, err := m.token(req, &s)
	if err == nil && m.time != nil {
		if s.time, err = m.time.at.read(req, nil); err == nil {
			err = m.time.check(req.Now, s.time)
		}
	}
	if err != nil {
		return err
	}
	return m.required(req, &s)
}

func (m *jws) verify(req *Request, keys []Key) error {
	var s signed
	t, err := m.token(req, &s)
	if err != nil {
		return err
	}
	s.kid = t.kid
	if m.time != nil {
		if s.time, err = m.time.at.read(req, nil); err != nil {
			return err
		}
	}
	payload, err := render(m.arithmetic.content, req, &s)
	if err != nil {
		return err
	}
	if err := t.signedBy(keys, segmentEncoding.EncodeToString(payload)); err != nil {
		return err
	}
	if err := m.required(req, &s); err != nil {
		return err
	}
	return m.time.check(req.Now, s.time)
}

func (m *jws) sign(req *Request, key Key) error {
	var s signed
	if m.time != nil {
		s.time = m.time.text(req.Now)
		if _, err := m.time.at.write(req, nil, s.time); err != nil {
			return err
		}
	}
	if err := fulfil(m.require, req, &s); err != nil {
		return err
	}
	payload, err := render(m.arithmetic.content, req, &s)
	if err != nil {
		return err
	}
	header, signature, err := signCompact(m.algorithms, "", "", segmentEncoding.EncodeToString(payload), key)
	if err != nil {
		return err
	}
	_, err = m.write(req, &s, header+".."+signature)
	return err
}
