package pgstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	defaultLockTimeout = time.Second

	// maxRounds bounds how often one call retries claims that lost their body to a claim which was
	// itself refused.
	maxRounds = 3
)

// Claim implements [driver.Store].
//
// Claims without guards and notes are first made by a plain statement, if the client library
// can send it; see claimPlain. The claim function makes the others, and decides those in doubt.
//
// The claim function explains most results. Claims that it cannot explain, because another session
// held the same key or body, are looked up afterwards. A claim without an event of its own stays
// unsettled unless the look-up finds the event that makes it a duplicate. Under BodyRefuse, if the
// other claim of the body was refused too, no event holds the body, and the claim is retried.
func (s *Store) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	if len(p.Claims) == 0 {
		return nil, nil
	}
	batch := newClaimBatch(p)
	batch.write = func(op string, each func(Rows) error, sql string, args ...any) error {
		return write(ctx, s.pools.Receive, op, each, sql, args...)
	}
	batch.read = func(op string, each func(Rows) error, sql string, args ...any) error {
		return read(ctx, s.pools.Receive, op, each, sql, args...)
	}
	if p.MostlyKnown {
		s.settleKnown(batch)
	}
	committed := false
	if len(batch.places) > 0 && s.plain(p) {
		var err error
		if committed, err = s.claimPlain(ctx, batch); err != nil {
			return nil, err
		}
	}
	if len(batch.places) == 0 {
		return batch.results, nil
	}
	if err := s.claimRounds(batch); err != nil {
		if !committed {
			return nil, err
		}
		// The others are committed, so these stay unsettled.
		for _, place := range batch.places {
			batch.results[place] = driver.ClaimResult{}
		}
	}
	return batch.results, nil
}

// settleKnown settles the claims whose events exist already, and leaves the others to be claimed.
// It leaves every claim with a body guard. On an error it settles nothing: the claim that follows
// fails too and reports the error.
func (s *Store) settleKnown(b *claimBatch) {
	keys := make([][]byte, 0, len(b.places))
	for _, place := range b.places {
		if c := &b.Claims[place]; c.BodyGuard == driver.BodyIgnore {
			keys = append(keys, c.Key[:])
		}
	}
	if len(keys) == 0 {
		return
	}
	found := make(map[driver.Key]known, len(keys))
	err := b.read("looking for duplicates", func(r Rows) error {
		var k known
		var key []byte
		if err := r.Scan(&key, &k.bodyHash, &k.dead); err != nil {
			return err
		}
		found[driver.Key(key)] = k
		return nil
	}, s.text(knownSQL), keys)
	if err != nil {
		return
	}
	b.places = slices.DeleteFunc(b.places, func(place int) bool {
		k, ok := found[b.Claims[place].Key]
		if ok {
			b.tell(place, k)
		}
		return ok
	})
}

// claimRounds claims until every refused claim has an event that it was refused for.
func (s *Store) claimRounds(b *claimBatch) error {
	unknown := driver.ErrCommitUnknown // earlier rounds have committed
	if b.inTx {
		unknown = driver.ErrSerialization
	}
	for round := range maxRounds {
		open, err := s.claimOnce(b)
		if err != nil {
			if round == 0 || b.inTx {
				return err
			}
			return fmt.Errorf("claiming again: %w: %w", unknown, err)
		}
		refused, err := s.lookUp(b, open)
		if err != nil {
			return err
		}
		if len(refused) == 0 {
			return nil
		}
		b.places = refused
	}
	return fmt.Errorf("claiming: %w: concurrent claims of the same body were refused repeatedly", unknown)
}

// mustBeSorted panics unless n keys are in ascending order. In any other order two batches could
// wait for one another.
func mustBeSorted(n int, key func(int) driver.Key) {
	for i := 1; i < n; i++ {
		before, after := key(i-1), key(i)
		if bytes.Compare(before[:], after[:]) >= 0 {
			panic("pgstore: keys are not in ascending order without repetition")
		}
	}
}

// runner runs a statement and calls each for every row.
type runner func(op string, each func(Rows) error, sql string, args ...any) error

// claimBatch is the state of one call of Claim.
type claimBatch struct {
	*driver.ClaimParams
	bodyKeys []driver.Key // zero if the guard ignores bodies
	results  []driver.ClaimResult
	places   []int         // the claims of this round
	lockWait time.Duration // for one lock

	write, read runner
	inTx        bool   // in a transaction, which any failure aborts
	lockBefore  string // lock_timeout before the claim
}

func newClaimBatch(p *driver.ClaimParams) *claimBatch {
	mustBeSorted(len(p.Claims), func(i int) driver.Key { return p.Claims[i].Key })
	b := &claimBatch{
		ClaimParams: p,
		bodyKeys:    make([]driver.Key, len(p.Claims)),
		results:     make([]driver.ClaimResult, len(p.Claims)),
		places:      make([]int, 0, len(p.Claims)),
		lockWait:    p.LockTimeout,
	}
	if b.lockWait <= 0 {
		b.lockWait = defaultLockTimeout
	}
	for i := range p.Claims {
		c := &p.Claims[i]
		if c.BodyGuard != driver.BodyIgnore {
			b.bodyKeys[i] = driver.BodyKey(c.Source, c.BodyHash)
		}
		b.places = append(b.places, i)
	}
	return b
}

// claimRow is one row of the claim statement's result.
type claimRow struct {
	place     int
	claimed   bool
	bodyTaken bool // this claim's key was written as the first one with its body
	known     known
}

// known is the state of the database before a claim.
type known struct {
	bodyHash []byte // of the event with the same key; nil if there is none
	dead     bool
	seenKey  []byte  // of the event that brought the body first; nil if there is none
	seenID   *string // its id; nil if that event holds another body
}

// claimOnce runs the statement for the claims of this round, fills in the certain results, and
// returns the rows that need a look-up.
func (s *Store) claimOnce(b *claimBatch) ([]claimRow, error) {
	var rows []claimRow
	claimed := -1 // until the row with the count
	var given leases
	sql, args := claimSQL, b.arguments()
	if lines := b.lines(); len(lines.ids) > 0 {
		sql, args = claimOrderedSQL, append(args, lines.ids, lines.lines, lines.sources, lines.versions, lines.holds)
	}
	err := b.write("claiming", func(r Rows) error {
		var row claimRow
		var place int64
		var n *int32
		var lockBefore *string
		var isClaimed, bodyTaken, dead *bool
		var l leases
		if err := r.Scan(&place, &n, &lockBefore, &l.at, &l.token, &l.paused,
			&isClaimed, &bodyTaken, &row.known.bodyHash, &dead, &row.known.seenKey, &row.known.seenID); err != nil {
			return err
		}
		if n != nil {
			given = l
			if claimed = int(*n); b.lockBefore == "" { // in the first round
				b.lockBefore = *lockBefore
			}
			return nil
		}
		row.claimed, row.bodyTaken, row.known.dead = *isClaimed, *bodyTaken, *dead
		row.place = b.places[place-1]
		rows = append(rows, row)
		return nil
	}, s.text(sql), args...)
	if err != nil {
		return nil, err
	}
	for _, place := range b.places { // claims without a row
		b.results[place].Claimed = true
	}
	left := len(b.places)
	for _, row := range rows {
		if b.results[row.place].Claimed = row.claimed; !row.claimed {
			left--
		}
	}
	if left != claimed {
		return nil, fmt.Errorf("claiming: %w: %d events were claimed, but the result lists %d", driver.ErrCommitUnknown, claimed, left)
	}
	b.tellLeases(&given)
	takers := map[driver.Key]int{} // by body key: the claim of this batch that brought the body first
	for _, row := range rows {
		if row.bodyTaken && row.claimed {
			takers[b.bodyKeys[row.place]] = row.place
		}
	}
	var open []claimRow
	for _, row := range rows {
		if !b.settle(row, takers) {
			open = append(open, row)
		}
	}
	return open, nil
}

// settle fills in the result of a row, and reports whether it is complete.
func (b *claimBatch) settle(row claimRow, takers map[driver.Key]int) bool {
	c := &b.Claims[row.place]
	b.tell(row.place, row.known)
	result := &b.results[row.place]
	if taker, ok := takers[b.bodyKeys[row.place]]; ok && taker != row.place && !result.Duplicate {
		first := &b.Claims[taker]
		b.repeats(row.place, first.EventID, first.Key)
	}
	// A claimed event is complete once the first event with its body is known.
	return result.Duplicate || result.Claimed && (c.BodyGuard == driver.BodyIgnore || row.bodyTaken || result.RepeatOf != "")
}

// tell adds the state of the database to a result.
func (b *claimBatch) tell(place int, k known) {
	c, result := &b.Claims[place], &b.results[place]
	if k.bodyHash != nil && !result.Claimed {
		result.Duplicate = true
		result.OtherBody = c.OtherBody(k.bodyHash)
		result.Dead = k.dead
	}
	if k.seenID != nil && !bytes.Equal(k.seenKey, c.Key[:]) {
		b.repeats(place, *k.seenID, driver.Key(k.seenKey))
	}
}

// repeats notes the event that first brought the body of a claim. Under BodyRefuse that event makes
// the claim a duplicate.
func (b *claimBatch) repeats(place int, id string, key driver.Key) {
	result := &b.results[place]
	result.RepeatOf, result.RepeatOfKey = id, key
	if !result.Claimed && b.Claims[place].BodyGuard == driver.BodyRefuse {
		result.Duplicate = true
	}
}

// lookUp reads the rows that the claim's snapshot could not see. It returns the places of claims
// that were refused for a body which no event holds.
func (s *Store) lookUp(b *claimBatch, open []claimRow) (refused []int, err error) {
	if len(open) == 0 {
		return nil, nil
	}
	var keys, bodyKeys, hashes [][]byte
	var guards []int32
	for _, row := range open {
		c := &b.Claims[row.place]
		keys = append(keys, c.Key[:])
		bodyKeys = append(bodyKeys, b.bodyKeys[row.place][:])
		hashes = append(hashes, c.BodyHash[:])
		guards = append(guards, int32(c.BodyGuard))
	}
	err = b.read("looking up concurrent claims", func(r Rows) error {
		var k known
		var place int64
		if err := r.Scan(&place, &k.bodyHash, &k.dead, &k.seenKey, &k.seenID); err != nil {
			return err
		}
		row := open[place-1]
		b.tell(row.place, k)
		if !b.results[row.place].Duplicate && b.refusedForBody(row) {
			refused = append(refused, row.place)
		}
		return nil
	}, s.text(lookUpSQL), keys, bodyKeys, hashes, guards)
	if err == nil || b.inTx {
		return refused, err
	}
	return nil, nil // claims without an event stay unsettled; the claimed ones are committed
}

// refusedForBody reports whether a claim was left out because another session held its body, and
// not its key.
func (b *claimBatch) refusedForBody(row claimRow) bool {
	return b.Claims[row.place].BodyGuard == driver.BodyRefuse && !row.claimed && !row.bodyTaken
}

// arguments returns the arguments of claimSQL for this round.
func (b *claimBatch) arguments() []any {
	n := len(b.places)
	keys, headers, bodies := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	hashes, bodyKeys := make([][]byte, n), make([][]byte, n)
	sources, ids, types, notes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	remotes, gateways := make([]string, n), make([]string, n)
	occurred := make([]*time.Time, n)
	guards, works := make([]int32, n), make([]int32, n)
	messages := b.messages()
	for i, place := range b.places {
		c := &b.Claims[place]
		keys[i], sources[i], ids[i], types[i] = c.Key[:], c.Source, c.EventID, c.Type
		occurred[i] = storable(c.OccurredAt)
		headers[i], bodies[i], hashes[i] = notNil(c.Headers), notNil(c.Body), c.BodyHash[:]
		bodyKeys[i], guards[i], works[i] = b.bodyKeys[place][:], int32(c.BodyGuard), int32(c.Work)
		notes[i], remotes[i], gateways[i] = c.Undecided, c.Remote, c.Gateway
	}
	return []any{
		lockTimeout(b.lockWait), clock(b.Now),
		keys, sources, ids, types, occurred, headers, bodies, hashes, bodyKeys, guards, works,
		notes, remotes, gateways, messages.ids, messages.keys, messages.routes, messages.destinations, messages.leases, notNone(b.AllowUnsafe),
	}
}

// lockTimeout returns a value for the setting lock_timeout. "0" would mean no bound.
func lockTimeout(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10) + "ms"
}

// notNil returns an empty slice for nil, which would be NULL: NULL marks a body that retention has
// removed.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// storable returns the argument for a time that a sender stated. A year outside of 1 to 9999 counts
// as unknown, so that it does not make the database refuse the event.
func storable(t time.Time) *time.Time {
	if t.IsZero() || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		return nil
	}
	return &t
}
