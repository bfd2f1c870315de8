package hookonce

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/work"
	"github.com/hookonce/hookonce/provider"
)

// Event is one event of a source. A handler must not change it.
type Event struct {
	Source     string
	ID         string // the sender's id, as shown; parts of a composite one are joined by ':'
	Type       string // "" if the provider has none
	OccurredAt time.Time
	Header     http.Header // as received; shared credentials are replaced by "<secret>"
	Body       []byte      // as received, or inflated if it was compressed; one item of a batch. See Document.

	// The fields below are zero unless the event is being handled.

	ReceivedAt time.Time // of the first delivery
	Generation int       // 0 unless replayed or reopened
	// Attempt is the attempt of its handler, from 1, in this generation. It is 0 in Refetch of an Inline source.
	Attempt int
	Current []byte // result of Source.Refetch; nil without it

	key           driver.Key
	keyGeneration int                 // of the last replay as new
	rules         *provider.Extractor // of the source; nil for one made by hand
}

// Document returns the JSON that body: means in the locations of the source: Body, or what
// EventRules.Document makes of it, for example the field of a form. It may be invalid JSON.
// The error says why there is none.
func (ev *Event) Document() ([]byte, error) {
	if ev.rules == nil {
		return ev.Body, nil
	}
	return ev.rules.EventDocument(ev.Body)
}

// IdempotencyKey returns a key for a call that a handler makes to another API, for example the
// Idempotency-Key of a charge. The key is the same on every run of this event in every process,
// also after the event was dead and is reopened or replayed: an API that honours the key does the
// work once even if the handler's transaction is rolled back after the call. Another purpose or
// event has another key, and so has a replay as new, which asks for the work again. The key has 38
// characters of [a-z0-9_].
func (ev *Event) IdempotencyKey(purpose string) string {
	key := ev.identity()
	h := sha256.New()
	h.Write([]byte("idempotency"))
	h.Write(key[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(ev.keyGeneration)))
	h.Write([]byte(purpose))
	return "hookonce_" + strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:18]))[:29]
}

// identity returns the key of ev, also of one made by hand, as in a test.
func (ev *Event) identity() driver.Key {
	if ev.key == (driver.Key{}) {
		return driver.EventKey(ev.Source, ev.ID)
	}
	return ev.key
}

// eventOf returns ev as handlers see it. rules are those of its source.
func eventOf(ev *work.Event, rules *provider.Extractor) *Event {
	return &Event{
		Source: ev.Source, ID: ev.EventID, Type: ev.Type, OccurredAt: ev.OccurredAt,
		Header: ev.Header, Body: ev.Body, ReceivedAt: ev.ReceivedAt, Current: ev.Current,
		Generation: ev.Generation, Attempt: ev.Attempts + 1, key: ev.Key, keyGeneration: ev.KeyGeneration, rules: rules,
	}
}

// runningKey is the context key of a handler's *running.
type runningKey struct{}

// running is a handler in progress, as EnqueueTx sees it.
type running struct {
	event    *Event
	mu       sync.Mutex     // a handler may enqueue from several goroutines
	messages []*Message     // enqueued by the handler
	made     map[string]int // how many equal messages without an id of their own, by the id of the first
}

func runningOf(ctx context.Context) *running {
	r, _ := ctx.Value(runningKey{}).(*running)
	return r
}

// Permanent marks err as permanent: the event of the handler, or the message of the Sender, is dead
// at once. Errors that wrap the result are permanent too. It returns nil if err is nil.
func Permanent(err error) error { return guard.Permanent(err) }

// RetryAfter marks err with a delay: the next attempt follows after d instead of the delay of the
// retry schedule. A d that is not positive means at once; due work is found within a second. At most
// 366 days are used. Errors that wrap the result carry the delay too. It returns nil if err is nil.
func RetryAfter(d time.Duration, err error) error { return guard.RetryAfter(d, err) }
