package driver

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// Key is the identity of an event: a SHA-256 over the source and the parts of the sender's event
// id, each preceded by its length. So two different lists of strings never share a key by
// concatenation. The client makes it. It is the primary key of the event table, and its size does
// not depend on the id.
type Key [sha256.Size]byte

// EventKey returns the key of an event of source with the given id parts; most ids have one part.
func EventKey(source string, parts ...string) Key {
	return hashStrings("event", append([]string{source}, parts...))
}

// BodyKey returns the key of a body of source. It is used where the sender's event id is not
// signed. bodyHash is the SHA-256 of the body.
func BodyKey(source string, bodyHash [sha256.Size]byte) Key {
	return hashStrings("body", []string{source, string(bodyHash[:])})
}

func hashStrings(kind string, parts []string) Key {
	buf := make([]byte, 0, 256)
	for _, part := range append([]string{kind}, parts...) {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(part)))
		buf = append(buf, part...)
	}
	return sha256.Sum256(buf)
}

// maxSplits limits the number of keys that CandidateKeys returns.
const maxSplits = 1 << 10

// CandidateKeys returns the keys that an event of source may have if its id is shown as id: an id
// of several parts is shown joined by ':', and a part may contain a ':' too. The key of id as a
// single part comes first. It returns nil if there would be more than 1,024 keys.
func CandidateKeys(source, id string) []Key {
	pieces := strings.Split(id, ":")
	gaps := len(pieces) - 1
	if gaps > 10 {
		return nil
	}
	keys := make([]Key, 0, min(1<<gaps, maxSplits))
	for mask := range 1 << gaps {
		parts := []string{pieces[0]}
		for gap := range gaps {
			if mask&(1<<gap) != 0 {
				parts = append(parts, pieces[gap+1])
			} else {
				parts[len(parts)-1] += ":" + pieces[gap+1]
			}
		}
		keys = append(keys, EventKey(source, parts...))
	}
	return keys
}

// KeysOf returns the keys that an event of one of the sources may have if its id is shown as id. It
// returns false if there would be more than MaxLookups keys.
func KeysOf(sources []string, id string) ([]Key, bool) {
	var keys []Key
	for _, source := range sources {
		candidates := CandidateKeys(source, id)
		if candidates == nil || len(keys)+len(candidates) > MaxLookups {
			return nil, false
		}
		keys = append(keys, candidates...)
	}
	return keys, true
}

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// MessageID returns the id of an event's message for route, which the destination sees as
// webhook-id. It is the same for all attempts, and changes only when a replay as new gives the
// event a new generation. It is "msg_" and 160 bits in lower-case base32, so it never contains a
// '.': the first 80 bits of key, which lead to the event (see EventsOfMessage), and 80 of a SHA-256.
func MessageID(key Key, generation int, route string) string {
	var gen [8]byte
	binary.BigEndian.PutUint64(gen[:], uint64(generation))
	return messageID(key, hashStrings("message", []string{string(key[:]), string(gen[:]), route}))
}

// MessageIDTo returns the id of an event's message to a destination where MessageID does not tell it
// apart: a replay sent the event there by name (then route is ""), or a route that has another
// destination now has the other id already.
func MessageIDTo(key Key, generation int, route, destination string) string {
	var gen [8]byte
	binary.BigEndian.PutUint64(gen[:], uint64(generation))
	return messageID(key, hashStrings("message to", []string{string(key[:]), string(gen[:]), route, destination}))
}

func messageID(key, sum Key) string {
	return messagePrefix + base32Lower.EncodeToString(append(key[:messageKeySize:messageKeySize], sum[:messageKeySize]...))
}

const (
	messagePrefix  = "msg_"
	messageKeySize = 10 // bytes of a message's id that are of its event's key, and as many that are not
)

// EventsOfMessage returns the lowest and the highest key that the event of a message may have, by
// the form of the message's id. It returns false if the id does not have the form of MessageID. An
// enqueued message may have an id of any form, and its event has OutboxKey.
func EventsOfMessage(id string) (first, last Key, ok bool) {
	encoded, ok := strings.CutPrefix(id, messagePrefix)
	if !ok || len(encoded) != base32Lower.EncodedLen(2*messageKeySize) {
		return Key{}, Key{}, false
	}
	decoded, err := base32Lower.DecodeString(encoded) // which skips line breaks
	if err != nil || len(decoded) != 2*messageKeySize {
		return Key{}, Key{}, false
	}
	n := copy(first[:], decoded[:messageKeySize])
	copy(last[:], first[:n])
	for i := n; i < len(last); i++ {
		last[i] = 0xff
	}
	return first, last, true
}
