package verify

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// standard is FamilyStandardWebhooks.
type standard struct {
	arithmetic
	tag    string // "v1" or "v1a"
	secret string // Scheme.SecretEncoding, for v1
	time   *timeRule
	trio   trio // the headers that sign sets
}

// trio holds the canonical names of the three headers of Standard Webhooks.
type trio struct{ id, timestamp, signature string }

// trios has the names of the specification first, then those of its predecessor Svix.
var trios = [...]trio{
	{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"},
	{"Svix-Id", "Svix-Timestamp", "Svix-Signature"},
}

func (t trio) other() trio {
	if t == trios[0] {
		return trios[1]
	}
	return trios[0]
}

// standardContent is "{id}.{timestamp}.{body}".
var standardContent = []part{{kind: partID}, {text: "."}, {kind: partTimestamp}, {text: "."}, {kind: partBody}}

// in reports whether h has any header of the trio.
func (t trio) in(h http.Header) bool {
	return len(h[t.id]) > 0 || len(h[t.timestamp]) > 0 || len(h[t.signature]) > 0
}

func (f *standard) verify(req *Request, keys []Key) error {
	if err := f.usable(keys); err != nil {
		return err
	}
	var s signed
	if err := f.read(req.Header, &s); err != nil {
		return err
	}
	match, decoded, err := f.match(req, &s, keys, 0, s.signatures.n)
	if err := verdict(&s, match, decoded, err); err != nil {
		return err
	}
	return f.time.check(req.Now, s.time)
}

func (f *standard) read(h http.Header, s *signed) error {
	t := trios[0]
	if trios[1].in(h) {
		if t.in(h) {
			return fmt.Errorf("%w: webhook- and svix- headers are mixed", ErrMalformed)
		}
		t = trios[1]
	}
	list, err := single(h, t.signature)
	if err != nil {
		return err
	}
	if s.id, err = single(h, t.id); err != nil {
		return err
	}
	if s.time, err = single(h, t.timestamp); err != nil {
		return err
	}
	if err := checkStandardID(s.id); err != nil {
		return err
	}
	elements := 0
	for element := range strings.SplitSeq(list, " ") {
		// An element without a comma counts as an unknown version.
		version, sig, _ := strings.Cut(element, ",")
		if elements++; elements > maxSignatures {
			return fmt.Errorf("%w: header %s is not a list of at most %d signatures", ErrMalformed, t.signature, maxSignatures)
		}
		if version == f.tag {
			s.signatures.text[s.signatures.n] = sig
			s.signatures.n++
			s.signatures.seen++
		}
	}
	return nil
}

// checkStandardID refuses an id with a '.', because bytes could then move between id, timestamp and
// body without changing the signature.
func checkStandardID(id string) error {
	if strings.Contains(id, ".") {
		return fmt.Errorf("%w: the id holds a '.'", ErrMalformed)
	}
	return nil
}

// sign sets the headers of f.trio, and removes those of the other trio: a request with both is
// malformed. The id may be in either.
func (f *standard) sign(req *Request, key Key) error {
	if err := f.usable([]Key{key}); err != nil {
		return err
	}
	from := f.trio.id
	if len(req.Header[from]) == 0 {
		from = f.trio.other().id
	}
	id, err := single(req.Header, from)
	if err != nil {
		return err
	}
	if err := checkStandardID(id); err != nil {
		return err
	}
	s := signed{id: id, time: f.time.text(req.Now)}
	sig, err := f.make(req, &s, key)
	if err != nil {
		return err
	}
	other := f.trio.other()
	for _, name := range []string{other.id, other.timestamp, other.signature} {
		req.Header.Del(name)
	}
	req.Header.Set(f.trio.id, id)
	req.Header.Set(f.trio.timestamp, s.time)
	req.Header.Set(f.trio.signature, f.tag+","+sig)
	return nil
}

func (f *standard) parseKey(text string) (Key, error) {
	if f.hash == nil {
		return parsePublicKey(f.public, text)
	}
	return parseSecret(f.secret, text)
}

func (*standard) needsURL() bool { return false }

func (*standard) covers(ref locate.Ref) bool {
	for _, t := range trios {
		if ref.Kind == locate.Header && (ref.Name == t.id || ref.Name == t.timestamp) {
			return true
		}
	}
	return covers(standardContent, ref)
}
