package verify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// append appends the part's text to dst.
func (p *part) append(dst []byte, req *Request, s *signed) ([]byte, error) {
	switch p.kind {
	case partLiteral:
		return append(dst, p.text...), nil
	case partBody:
		return append(dst, req.Body...), nil
	case partTimestamp:
		return append(dst, s.time...), nil
	case partID:
		return append(dst, s.id...), nil
	case partKID:
		return append(dst, s.kid...), nil
	case partSecret:
		return append(dst, s.secret...), nil
	case partMethod:
		return append(dst, req.Method...), nil
	}
	switch {
	case p.chosen():
		return p.appendValue(dst, req, s)
	case p.needsURL():
		return p.appendURL(dst, req, s)
	case p.kind >= partSortedForm:
		return p.appendDerived(dst, req, s)
	}
	return p.appendSum(dst, req)
}

// appendValue appends a value of the request. It refuses a value that contains a literal byte
// beside it.
func (p *part) appendValue(dst []byte, req *Request, s *signed) ([]byte, error) {
	value, err := p.value(req, s)
	if err != nil {
		return nil, err
	}
	if p.before != 0 && strings.IndexByte(value, p.before) >= 0 || p.after != 0 && strings.IndexByte(value, p.after) >= 0 {
		return nil, fmt.Errorf("%w: %s holds the character that ends it in the signed content", ErrMalformed, p.ref())
	}
	return append(dst, value...), nil
}

func (p *part) value(req *Request, s *signed) (string, error) {
	if p.kind == partHeader {
		return single(req.Header, p.text)
	}
	at := place{ref: p.ref(), path: p.path}
	if p.kind == partItem {
		text, _, err := jsonText(s.item, p.path)
		if err != nil {
			return "", fmt.Errorf("%w: %s", ErrMalformed, at.ref)
		}
		return text, nil
	}
	return at.read(req, s.item)
}

// valueKinds maps the parts that are values of the request to the kinds of their locations.
var valueKinds = map[partKind]locate.Kind{
	partHeader: locate.Header, partQuery: locate.Query,
	partJSON: locate.Body, partItem: locate.Item, partForm: locate.Form,
}

// ref returns the location of a value.
func (p *part) ref() locate.Ref {
	return locate.Ref{Kind: valueKinds[p.kind], Name: p.text}
}

func (p *part) appendURL(dst []byte, req *Request, s *signed) ([]byte, error) {
	u := s.url
	if u == "" {
		var err error
		if u, err = publicURL(req); err != nil {
			return nil, err
		}
	}
	switch p.kind {
	case partURL:
		return append(dst, u...), nil
	case partURLUnescaped:
		if s.documented {
			u = hubSpotURL.Replace(u)
		}
		return append(dst, u...), nil
	case partPath:
		path, _, _ := strings.Cut(pathQuery(u), "?")
		return append(dst, path...), nil
	case partPathQuery:
		return append(dst, pathQuery(u)...), nil
	case partPathQueryEscaped:
		return appendPathQueryEscaped(dst, u)
	case partQSH:
		return appendQSH(dst, req.Method, u)
	default: // partSHA256URL
		sum := sha256.Sum256([]byte(u))
		return hex.AppendEncode(dst, sum[:]), nil
	}
}

// appendSum appends a hash or an encoding of the body.
func (p *part) appendSum(dst []byte, req *Request) ([]byte, error) {
	switch p.kind {
	case partSHA256Body, partSHA256Base64Body, partSHA256RawBody:
		sum := sha256.Sum256(req.Body)
		switch p.kind {
		case partSHA256Body:
			return hex.AppendEncode(dst, sum[:]), nil
		case partSHA256Base64Body:
			return base64.StdEncoding.AppendEncode(dst, sum[:]), nil
		}
		return append(dst, sum[:]...), nil
	case partCRC32Body:
		return strconv.AppendUint(dst, uint64(crc32.ChecksumIEEE(req.Body)), 10), nil
	case partBase64Body:
		return base64.StdEncoding.AppendEncode(dst, req.Body), nil
	default: // partBase64URLBody
		return base64.RawURLEncoding.AppendEncode(dst, req.Body), nil
	}
}
