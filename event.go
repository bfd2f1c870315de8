package hookonce

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/work"
)

// Event is one thing that a source told us. A handler must not change it.
type Event struct {
	Source     string
	ID         string // the sender's id, as shown; parts of a composite one are joined by ':'
	Type       string // "" if the provider has none
	OccurredAt time.Time
	Header     http.Header // as received; shared credentials are replaced by "<secret>"
	Body       []byte      // as received, or inflated if it was compressed; one item of a batch

	// What follows is zero where an event is not being worked on, as in Route.Where.

	ReceivedAt time.Time // of the first delivery
	Generation int       // 0 unless replayed or reopened
	Attempt    int       // of its handler, from 1, in this generation
	Current    []byte    // what Source.Refetch returned; nil without it

	key           driver.Key
	keyGeneration int // of the last replay as new
}

// IdempotencyKey returns a key for a call that a handler makes to another API,
// for example as the Idempotency-Key of a charge. It is the same on every run of
// this event, whichever process runs it, also after it was dead and was reopened or
// replayed: an API that honours it does the work once, though the handler's
// transaction was rolled back after the call. It differs for another purpose or
// event, and after a replay as new, which is to do the work again. It is 38
// characters of [a-z0-9_].
func (ev *Event) IdempotencyKey(purpose string) string {
	key := ev.key
	if key == (driver.Key{}) { // made by hand, as in a test
		key = driver.EventKey(ev.Source, ev.ID)
	}
	h := sha256.New()
	h.Write([]byte("idempotency"))
	h.Write(key[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(ev.keyGeneration)))
	h.Write([]byte(purpose))
	return "hookonce_" + strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:18]))[:29]
}

// eventOf returns ev as handlers see it.
func eventOf(ev *work.Event) *Event {
	return &Event{
		Source: ev.Source, ID: ev.EventID, Type: ev.Type, OccurredAt: ev.OccurredAt,
		Header: ev.Header, Body: ev.Body, ReceivedAt: ev.ReceivedAt, Current: ev.Current,
		Generation: ev.Generation, Attempt: ev.Attempts + 1, key: ev.Key, keyGeneration: ev.KeyGeneration,
	}
}

// runningKey is the key under which the context of a handler holds its *running.
type runningKey struct{}

// running is the run of a handler, as EnqueueTx sees it.
type running struct {
	event    *Event
	messages []*Message // that it enqueued
}

func runningOf(ctx context.Context) *running {
	r, _ := ctx.Value(runningKey{}).(*running)
	return r
}
