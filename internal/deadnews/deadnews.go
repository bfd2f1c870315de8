// Package deadnews tells destinations of dead letters: one summary a minute while some die, as a
// message in the outbox. The summary is read from the database and its id follows from the minute,
// so several processes with the same settings send one, and a killed process loses none.
package deadnews

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// settle is how long after its end a minute is summed up: the commits that end in it are done.
	settle = 10 * time.Second
	// lookBack is how far back the first look goes. Messages that exist are not sent again.
	lookBack = 10 * time.Minute
	askEvery = 5 * time.Second
)

// Store is the part of driver.Store that a Teller needs.
type Store interface {
	driver.DeadNews
	Now(ctx context.Context) (time.Time, error)
}

// Watch names the dead letters that one destination is told of.
type Watch struct {
	Target       string
	Destinations []string // of dead messages
	Sources      []string // of events that are dead themselves
	Routes       []string // to Destinations; they were undecided about events that are dead
}

// Teller remembers how far it has told. It must not be used concurrently.
type Teller struct {
	store Store
	asked time.Time
	told  time.Time // all minutes before
}

// New returns a Teller on a store.
func New(store Store) *Teller { return &Teller{store: store} }

// Tell enqueues the summaries of all minutes that ended since the last call, and returns the
// destinations that got one. After an error the next call goes on where this one stopped. Most calls
// do nothing: it asks the store every few seconds.
func (t *Teller) Tell(ctx context.Context, watches []Watch) (targets []string, err error) {
	if len(watches) == 0 || time.Since(t.asked) < askEvery {
		return nil, nil
	}
	t.asked = time.Now()
	now, err := t.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	last := now.Add(-settle).Truncate(time.Minute)
	if first := last.Add(-lookBack); t.told.Before(first) || t.told.After(last.Add(time.Minute)) {
		t.told = first // the first call, a long outage, or a step of the database's clock
	}
	for t.told.Before(last) {
		for i := range watches {
			told, err := t.tell(ctx, &watches[i], t.told)
			if err != nil {
				return targets, err
			}
			if told {
				targets = append(targets, watches[i].Target)
			}
		}
		t.told = t.told.Add(time.Minute)
	}
	return targets, nil
}

// tell enqueues the summary of one minute, if there is a dead letter in it.
func (t *Teller) tell(ctx context.Context, w *Watch, minute time.Time) (bool, error) {
	until := minute.Add(time.Minute)
	dead, err := t.store.NewDead(ctx, &driver.NewDeadParams{
		Destinations: w.Destinations, Sources: w.Sources, Routes: w.Routes, Since: minute, Until: until,
	})
	if err != nil || len(dead) == 0 {
		return false, err
	}
	return true, t.store.Enqueue(ctx, []driver.OutboxMessage{{
		ID: w.id(minute), Destination: w.Target, Type: Type, Headers: []byte(`{"Content-Type":["application/json"]}`),
		Body: encode(sumUp(dead, minute, until)),
	}})
}

// id returns the id of the summary of a minute. Processes whose settings differ in the watched names
// send their own summaries.
func (w *Watch) id(minute time.Time) string {
	parts := []string{w.Target, strconv.FormatInt(minute.Unix(), 10)}
	for _, names := range [][]string{w.Destinations, w.Sources, w.Routes} {
		parts = append(append(parts, strconv.Itoa(len(names))), sorted(names)...)
	}
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(strconv.Quote(part))
	}
	hash := sha256.Sum256([]byte(text.String()))
	return driver.SummaryPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(hash[:20]))
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
