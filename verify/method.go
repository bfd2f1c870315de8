package verify

import "github.com/hookonce/hookonce/internal/locate"

// method is a compiled family: it checks and makes the signatures of one scheme. Errors of verify
// match one of the errors in errors.go, and hold no value of the request or of a key.
type method interface {
	// verify returns nil if one of keys signed req. There is at least one key.
	verify(req *Request, keys []Key) error
	// sign changes req so that verify accepts it with key. req.Header is not nil.
	sign(req *Request, key Key) error
	parseKey(text string) (Key, error)
	needsURL() bool
	// covers reports whether the value at ref is signed; see Verifier.Covers.
	covers(ref locate.Ref) bool
}

// signed holds the values that a request gives for itself, not verified yet, and the item that is
// being checked.
type signed struct {
	id, time   string // {id} of Standard Webhooks; {timestamp}
	kid        string // the id at Scheme.KeyID; "" if the scheme has none
	item       []byte // an item of Scheme.Each; nil if the scheme has none
	url        string // overrides the public URL; "" means the one of the Request
	documented bool   // parts in the form of the documentation, where the SDK has another
	secret     []byte // {secret}
	signatures signatures
}

// none is FamilyNone.
type none struct{}

func (none) verify(*Request, []Key) error { return nil }
func (none) sign(*Request, Key) error     { return nil }
func (none) parseKey(string) (Key, error) { return Key{}, nil }
func (none) needsURL() bool               { return false }
func (none) covers(locate.Ref) bool       { return false }
