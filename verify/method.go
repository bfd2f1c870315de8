package verify

import "github.com/hookonce/hookonce/internal/locate"

// method is one family, compiled: it judges and makes the signatures of one
// scheme. Errors of verify match one of the sentinels of this package, and have
// nothing of a request's values or of a key in them.
type method interface {
	// verify returns nil if req was signed with one of keys, of which there is at
	// least one.
	verify(req *Request, keys []Key) error
	// sign changes req, whose Header is not nil, so that verify accepts it with key.
	sign(req *Request, key Key) error
	parseKey(text string) (Key, error)
	needsURL() bool
	// covers reports whether what stands at ref is signed; see Verifier.Covers.
	covers(ref locate.Ref) bool
}

// signed is what a request says for itself, before any of it is believed, and
// which part of the request is being looked at.
type signed struct {
	id, time   string // {id}, of Standard Webhooks; {timestamp}
	kid        string // Scheme.KeyID, "" without
	item       []byte // of Scheme.Each, nil without
	url        string // the public URL; "" means that of Request, with its query
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
