package driver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"
)

// Rules that every store and its callers share.

// MaxMessageID is the maximum size of the id of an enqueued message, in bytes.
const MaxMessageID = 255

// IsText reports whether every database accepts s as text: valid UTF-8 without NUL.
func IsText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Check returns an error if m has an id or a text that a store cannot store.
func (m *OutboxMessage) Check() error {
	notPrintable := func(r rune) bool { return r <= ' ' || r > '~' || r == '.' }
	if m.ID == "" || len(m.ID) > MaxMessageID || strings.ContainsFunc(m.ID, notPrintable) {
		return fmt.Errorf("its id must be 1 to %d characters of printable ASCII without '.' and spaces", MaxMessageID)
	}
	for _, text := range [...]string{m.Destination, m.Source, m.EventID, m.Type} {
		if !IsText(text) {
			return errors.New("its destination, source, event id or type is not valid UTF-8, or contains a NUL")
		}
	}
	return nil
}

// Backoff returns the time to wait after attempt n (from 1) failed, with full jitter: a random time
// between 0 and first·2ⁿ⁻¹, and at most most.
func Backoff(first, most time.Duration, n int) time.Duration {
	most = max(most, 0)
	ceiling := min(max(first, 0), most)
	for i := 1; i < n && ceiling < most; i++ {
		ceiling += min(ceiling, most-ceiling)
	}
	return rand.N(ceiling + 1)
}
