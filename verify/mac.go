package verify

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"fmt"
	"hash"
)

// maxSize is the size in bytes of the largest HMAC or hash.
const maxSize = sha512.Size

var hashes = map[string]struct {
	new  func() hash.Hash
	size int
}{
	AlgorithmMD5:    {md5.New, md5.Size},
	AlgorithmSHA1:   {sha1.New, sha1.Size},
	AlgorithmSHA256: {sha256.New, sha256.Size},
	AlgorithmSHA384: {sha512.New384, sha512.Size384},
	AlgorithmSHA512: {sha512.New, sha512.Size},
}

// arithmetic computes and compares signatures: an HMAC, a hash that includes the secret, or a
// public-key algorithm.
type arithmetic struct {
	content []part
	codec   codec
	hash    func() hash.Hash // nil for a public-key algorithm
	keyed   bool             // an HMAC
	size    int              // bytes of a decoded signature, if hash is set
	name    string           // of the hash, if hash is set
	public  string           // the public-key algorithm, if hash is nil
}

// setHash sets the algorithm, which is one of hashes.
func (a *arithmetic) setHash(algorithm string) {
	a.name, a.hash, a.size = algorithm, hashes[algorithm].new, hashes[algorithm].size
}

// usable returns an error unless all keys are of the kind that the scheme needs.
func (a *arithmetic) usable(keys []Key) error {
	for i := range keys {
		m := keys[i].material()
		if a.hash == nil && len(m.public) == 0 || a.hash != nil && m.hmac == nil {
			return fmt.Errorf("%w: key %d was not made by ParseKey for this scheme", ErrNoKeys, i+1)
		}
	}
	return nil
}

// match compares the signatures first to last-1 with every key. match is 1 if one of them matches;
// decoded is the number of signatures in the scheme's encoding and length.
func (a *arithmetic) match(req *Request, s *signed, keys []Key, first, last int) (match, decoded int, err error) {
	if a.hash == nil {
		return a.matchPublic(req, s, keys, first, last)
	}
	var few [maxSignatures][maxSize]byte
	sigs := few[:]
	if last-first > maxSignatures {
		sigs = make([][maxSize]byte, last-first)
	}
	for i := first; i < last; i++ {
		if n, ok := a.codec.decode(sigs[decoded][:a.size], s.signatures.at(i)); ok && n == a.size {
			decoded++
		}
	}
	// Try every key with every signature: the time must not show which one matches.
	var buf [maxSize]byte
	for i := range keys {
		for m := keys[i].material(); m != nil; m = m.also {
			sum, err := a.sum(buf[:0], req, s, m)
			if err != nil {
				return 0, 0, err
			}
			for n := range decoded {
				match |= subtle.ConstantTimeCompare(sum, sigs[n][:a.size])
			}
		}
	}
	return match, decoded, nil
}

// matchPublic is match for public keys, which need no constant time.
func (a *arithmetic) matchPublic(req *Request, s *signed, keys []Key, first, last int) (match, decoded int, err error) {
	msg, err := render(a.content, req, s)
	if err != nil {
		return 0, 0, err
	}
	sig := make([]byte, maxPublicSignature)
	for i := first; i < last; i++ {
		n, ok := a.codec.decode(sig, s.signatures.at(i))
		if !ok || n == 0 || a.public == AlgorithmEd25519 && n != ed25519.SignatureSize {
			continue
		}
		decoded++
		for k := range keys {
			if publicVerify(a.public, keys[k].material(), s.kid, msg, sig[:n]) {
				return 1, decoded, nil
			}
		}
	}
	return 0, decoded, nil
}

// sum appends the HMAC or hash of the signed content to dst.
func (a *arithmetic) sum(dst []byte, req *Request, s *signed, key *material) ([]byte, error) {
	if !a.keyed {
		s.secret = key.hmac
		return a.hashed(dst, &hasher{Hash: a.hash()}, req, s)
	}
	h := key.hasher(a)
	defer key.hashers.Put(h)
	return a.hashed(dst, h, req, s)
}

// hasher is a hash or an HMAC, with room for the signed content beside the body.
type hasher struct {
	hash.Hash
	name   string // of an HMAC's algorithm
	beside [256]byte
}

// hasher returns an HMAC of the key. A used one has hashed the key already.
func (m *material) hasher(a *arithmetic) *hasher {
	if h, _ := m.hashers.Get().(*hasher); h != nil && h.name == a.name {
		h.Reset()
		return h
	}
	return &hasher{Hash: hmac.New(a.hash, m.hmac), name: a.name}
}

// hashed appends the hash of the signed content to dst.
func (a *arithmetic) hashed(dst []byte, h *hasher, req *Request, s *signed) ([]byte, error) {
	pending := h.beside[:0]
	var err error
	for i := range a.content {
		p := &a.content[i]
		if p.kind != partBody {
			if pending, err = p.append(pending, req, s); err != nil {
				return nil, err
			}
			continue
		}
		_, _ = h.Write(pending) // a hash never fails
		pending = pending[:0]
		_, _ = h.Write(req.Body)
	}
	_, _ = h.Write(pending)
	return h.Sum(dst), nil
}

// make returns the encoded signature of the content.
func (a *arithmetic) make(req *Request, s *signed, key Key) (string, error) {
	if a.hash != nil {
		sum, err := a.sum(nil, req, s, key.material())
		return a.codec.encode(sum), err
	}
	msg, err := render(a.content, req, s)
	if err != nil {
		return "", err
	}
	sig, err := publicSign(a.public, key.material(), msg)
	return a.codec.encode(sig), err
}
