package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// health knows whether deliveries can be made durable: whether claims succeed on this schema, the clocks
// agree, and the database loses no commit and does what hookonce relies on.
type health struct {
	store      driver.Store
	log        *slog.Logger
	allowed    []string // weak settings, see Config.AllowUnsafe
	clock      clockKeeper
	claiming   claimHealth
	fits       atomic.Bool // the schema was seen to fit
	durability durability
	outage     *outage
}

func newHealth(store driver.Store, log *slog.Logger, allowed []string, answered503 func() int64) *health {
	out := &outage{answered: answered503}
	return &health{store: store, log: log, allowed: allowed, clock: newClockKeeper(store), claiming: newClaimHealth(store, log, out), outage: out}
}

// check returns nil when deliveries can be claimed. maxSkew is the largest skew of this machine's clock; 0
// is no bound.
func (h *health) check(ctx context.Context, maxSkew time.Duration) error {
	err := h.look(ctx, maxSkew)
	if err != nil && ctx.Err() == nil || err == nil && h.claiming.failed.Load() == 0 {
		h.outage.note(err == nil)
	}
	return err
}

func (h *health) look(ctx context.Context, maxSkew time.Duration) error {
	if err := h.questions(ctx, maxSkew); err != nil {
		if errors.Is(err, driver.ErrUnavailable) && ctx.Err() == nil {
			h.claiming.forget()
		}
		return err
	}
	return h.claiming.check(ctx)
}

// questions looks at all that the database answers without a write.
func (h *health) questions(ctx context.Context, maxSkew time.Duration) error {
	if err := h.checkSchema(ctx); err != nil {
		return err
	}
	if err := h.checkDurability(ctx); err != nil {
		return err
	}
	skew, err := h.skew(ctx)
	if err == nil && maxSkew > 0 && skew.Abs() > maxSkew {
		err = fmt.Errorf("hookonce: this machine's clock differs from the database's by %s: set both by NTP", skew.Round(time.Millisecond))
	}
	return err
}

// skew compares this machine's clock with the database's.
func (h *health) skew(ctx context.Context) (time.Duration, error) {
	if err := h.clock.read(ctx); err != nil {
		return 0, fmt.Errorf("hookonce: the database does not answer: %w", err)
	}
	return h.clock.skew(), nil
}

// now returns the database's time, as the clocks were compared last.
func (h *health) now() time.Time { return time.Now().Round(0).Add(-h.clock.skew()) }

// checkSchema returns an error if the schema is not this program's. It looks until the schema fits.
func (h *health) checkSchema(ctx context.Context) error {
	if h.fits.Load() {
		return nil
	}
	applied, err := h.store.Applied(ctx)
	if err != nil {
		return err
	}
	if err := driver.CheckSchema(h.store.Migrations(), applied); err != nil {
		return fmt.Errorf("hookonce: %w", err)
	}
	h.fits.Store(true)
	return nil
}

// clockKeeper compares this machine's clock with the database's.
type clockKeeper struct {
	store driver.Store
	last  *atomic.Pointer[clockReading]
	again *once
	// wentBack is set while the database's clock may have been set back since the last pullBack. Nothing is known of the time
	// before this process.
	wentBack *atomic.Bool
}

// clockReading is one comparison. The wall clock may be set; the monotonic clock never is.
type clockReading struct {
	wall      time.Time // of this machine, without the monotonic clock
	monotonic time.Time
	skew      time.Duration // this machine's clock minus the database's
	// stepped is when this machine's clock was last found to be set by more than maxClockError; zero: never.
	stepped time.Time
}

// maxClockError is the largest error of a clock: beyond it no old rows are removed. Events of a clock that was ahead
// cannot be told from old ones.
const maxClockError = time.Hour

// maxClockJitter is how far a comparison of clocks may be off.
const maxClockJitter = 10 * time.Second

func newClockKeeper(store driver.Store) clockKeeper {
	c := clockKeeper{store: store, last: new(atomic.Pointer[clockReading]), again: new(once), wentBack: new(atomic.Bool)}
	c.wentBack.Store(true)
	return c
}

// read compares the clocks.
func (c *clockKeeper) read(ctx context.Context) error {
	before := time.Now()
	db, err := c.store.Now(ctx)
	if err != nil {
		return err
	}
	after := time.Now()
	r := &clockReading{
		wall: after.Round(0), monotonic: after,
		// On the monotonic clock, so that a step between the two readings is not taken for half a skew.
		skew: after.Round(0).Add(-after.Sub(before) / 2).Sub(db),
	}
	if last := c.last.Load(); last != nil {
		r.stepped = last.stepped
		if last.step(after).Abs() > maxClockError {
			r.stepped = after
		}
		if last.step(after)+last.skew-r.skew < -maxClockJitter { // the step of the database's clock
			c.wentBack.Store(true)
		}
	}
	c.last.Store(r)
	return nil
}

// step returns by how much this machine's clock was set since r.
func (r *clockReading) step(now time.Time) time.Duration {
	return now.Round(0).Sub(r.wall) - now.Sub(r.monotonic)
}

// plausible compares the clocks, and fails if rows that look old may be new: the clocks differ by more than
// maxClockError, or this machine's was lately set by more. A machine that slept looks as if its clock had been set.
func (c *clockKeeper) plausible(ctx context.Context) error {
	if err := c.read(ctx); err != nil {
		return err
	}
	r := c.last.Load()
	switch {
	case r.skew.Abs() > maxClockError:
		return fmt.Errorf("this machine's clock differs from the database's by %s: set both by NTP", r.skew.Round(time.Second))
	case !r.stepped.IsZero() && time.Since(r.stepped) < maxClockError:
		return fmt.Errorf("this machine's clock was set, or the machine slept, for more than %s: waiting until %s",
			maxClockError, r.stepped.Add(maxClockError).UTC().Format(time.RFC3339))
	}
	return nil
}

// skew returns this machine's clock minus the database's: as they were compared last, plus any step
// of this machine's clock since then.
func (c *clockKeeper) skew() time.Duration {
	r := c.last.Load()
	if r == nil {
		return 0
	}
	return r.skew + r.step(time.Now())
}

// isOff reports whether this machine's clock is so far from the database's that a timestamp within
// tolerance may look stale. If it does not know of that, it compares the clocks again, at most once
// in probeInterval: the database's clock may have been set, too. While the database does not answer,
// it reports true, because nothing can be claimed then anyway.
func (c *clockKeeper) isOff(ctx context.Context, tolerance time.Duration) bool {
	if tolerance <= 0 {
		return false
	}
	if c.skew().Abs() > tolerance/2 {
		return true
	}
	return c.again.do(ctx, c.read) != nil || c.skew().Abs() > tolerance/2
}

// maxFailedClaims is the number of claims that may fail one after the other while the engine stays
// ready.
const maxFailedClaims = 5

// claimHealth knows whether claims succeed, and whether the database has passed its proof. A
// database may answer questions and still refuse every write, for example because its disk is full.
type claimHealth struct {
	store  driver.Store
	log    *slog.Logger
	failed *atomic.Int64 // claims, since the last success
	// refused counts claims that failed by the fault of their rows, since the last success. Somebody may send bad rows only, so
	// they do not make the engine unready, but it tests whether the database refuses all rows.
	refused *atomic.Int64
	probe   *once
	outage  *outage

	proved *atomic.Pointer[string]             // the server that proved itself; nil: it must do so again
	lack   *atomic.Pointer[driver.ServerError] // nil: none is known
}

func newClaimHealth(store driver.Store, log *slog.Logger, out *outage) claimHealth {
	return claimHealth{
		store: store, log: log, failed: new(atomic.Int64), refused: new(atomic.Int64), probe: new(once), outage: out,
		proved: new(atomic.Pointer[string]), lack: new(atomic.Pointer[driver.ServerError]),
	}
}

// note records the outcome of one claim, of any number of events.
func (h *claimHealth) note(err error) {
	switch {
	case err == nil:
		h.failed.Store(0)
		h.refused.Store(0)
		h.outage.note(true)
	case driver.FaultOfRows(err):
		h.refused.Add(1)
	default:
		h.failed.Add(1)
		h.outage.note(false)
	}
}

// forget makes the database prove itself again: it was away.
func (h *claimHealth) forget() { h.proved.Store(nil) }

// check returns an error until the server has proved itself, and after maxFailedClaims failures in a row, until a claim
// succeeds; after as many refused claims, if the proof is refused, too. A load balancer may send no deliveries meanwhile, so check then proves it again, at most
// once in probeInterval.
func (h *claimHealth) check(ctx context.Context) error {
	server, err := h.store.Server(ctx)
	if err != nil {
		if ctx.Err() == nil { // otherwise the caller was impatient
			h.forget()
		}
		return fmt.Errorf("hookonce: the database does not answer: %w", err)
	}
	if h.trusts(server) && h.refused.Load() < maxFailedClaims {
		return nil
	}
	if err := h.probe.do(ctx, h.prove); err != nil {
		return fmt.Errorf("hookonce: a test of the database failed: %w", err)
	}
	if !h.trusts(server) {
		return errUnproved
	}
	return nil
}

// trusts reports whether a server has proved itself, and not failed since.
func (h *claimHealth) trusts(server string) bool {
	proved := h.proved.Load()
	return proved != nil && *proved == server && h.failed.Load() < maxFailedClaims && h.lack.Load() == nil
}

// errUnproved is the error of check if claims failed, or the server changed, just after a proof.
var errUnproved = fmt.Errorf("hookonce: %w, or was just now; it is tested again within a second", driver.ErrUnavailable)

// prove lets the server prove itself.
func (h *claimHealth) prove(ctx context.Context) error {
	server, err := h.store.Server(ctx) // before the proof, so that a change meanwhile is seen
	if err != nil {
		return err
	}
	skipped, err := h.store.Prove(ctx)
	if lack, ok := errors.AsType[*driver.ServerError](err); ok {
		if before := h.lack.Swap(lack); before == nil || *before != *lack {
			h.log.Error("deliveries are answered 503", slog.Any("error", lack))
		}
	}
	if err != nil {
		return err
	}
	if h.lack.Swap(nil) != nil {
		h.log.Info("the database has what hookonce needs again; deliveries are accepted")
	}
	for _, text := range skipped {
		h.log.Info("the test of the database left something out", slog.String("skipped", text))
	}
	h.failed.Store(0)
	h.refused.Store(0)
	h.proved.Store(&server)
	return nil
}

// watch is check for the upkeep. Its error does not tell of a lack, which is logged.
func (h *claimHealth) watch(ctx context.Context) error {
	err := h.check(ctx)
	if _, lacks := errors.AsType[*driver.ServerError](err); lacks {
		return nil
	}
	return err
}

// outage knows since when deliveries cannot be claimed, and how many were answered 503 meanwhile. Every claim notes its
// outcome here, so there is no lock.
type outage struct {
	answered func() int64                // all deliveries that were answered 503
	began    atomic.Pointer[outageBegin] // nil: they can be claimed
}

type outageBegin struct {
	at       time.Time
	answered int64 // until then
}

// note records whether deliveries can be claimed.
func (o *outage) note(can bool) {
	switch began := o.began.Load(); {
	case can && began != nil:
		o.began.Store(nil)
	case !can && began == nil:
		o.began.CompareAndSwap(nil, &outageBegin{time.Now(), o.answered()})
	}
}

// status implements operate.Engine.Outage.
func (o *outage) status() (since time.Time, answered503 int64) {
	began := o.began.Load()
	if began == nil {
		return time.Time{}, 0
	}
	return began.at, o.answered() - began.answered
}

// durabilityTimeout bounds the look at the durability settings when Run starts.
const durabilityTimeout = 5 * time.Second

// UnsafeError lists the settings that may make the database lose acknowledged events.
// Config.AllowUnsafe allows them by name.
type UnsafeError struct {
	Weaknesses []driver.Weakness
}

// Error implements error.
func (e *UnsafeError) Error() string {
	texts := make([]string, len(e.Weaknesses))
	for i, w := range e.Weaknesses {
		texts[i] = w.String()
	}
	return "the database may lose acknowledged events:\n  " + strings.Join(texts, "\n  ")
}

// durability is the result of the last look at the durability settings of the database.
type durability struct {
	refused  atomic.Pointer[UnsafeError] // nil: nothing weak was seen that is not allowed
	accepted atomic.Pointer[[]driver.Weakness]
}

// weaknesses implements operate.Engine.Weaknesses.
func (h *health) weaknesses(ctx context.Context) (refused, allowed []driver.Weakness, err error) {
	found, err := h.store.Weaknesses(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("hookonce: reading the durability settings of the database: %w", err)
	}
	for _, w := range found {
		if w.Platform != "" || slices.Contains(h.allowed, w.Setting) {
			allowed = append(allowed, w)
		} else {
			refused = append(refused, w)
		}
	}
	return refused, allowed, nil
}

// checkDurability implements operate.Engine.CheckDurability.
func (h *health) checkDurability(ctx context.Context) error {
	refused, allowed, err := h.weaknesses(ctx)
	if err != nil {
		return err // the last look stays in force
	}
	d := &h.durability
	if before := d.accepted.Swap(&allowed); before == nil || !slices.Equal(*before, allowed) {
		for _, w := range allowed {
			if w.Platform != "" {
				h.log.Info("a setting of durability is off, and the platform loses nothing by it", slog.String("setting", w.String()))
				continue
			}
			h.log.Warn("the database may lose acknowledged events; the settings allow it", slog.String("setting", w.Setting),
				slog.String("value", w.Value), slog.String("effect", w.Effect), slog.String("remedy", w.Remedy))
		}
	}
	if len(refused) == 0 {
		if d.refused.Swap(nil) != nil {
			h.log.Info("the database keeps acknowledged events again; deliveries are accepted")
		}
		return nil
	}
	unsafe := &UnsafeError{Weaknesses: refused}
	if before := d.refused.Swap(unsafe); before == nil || !slices.Equal(before.Weaknesses, refused) {
		h.log.Error("deliveries are answered 503", slog.Any("error", unsafe))
	}
	return fmt.Errorf("hookonce: %w", unsafe)
}

// watchDurability is checkDurability for the upkeep. Its error says only that the settings could not
// be read.
func (h *health) watchDurability(ctx context.Context) error {
	err := h.checkDurability(ctx)
	if _, unsafe := errors.AsType[*UnsafeError](err); unsafe {
		return nil
	}
	return err
}

// refusal returns an error if deliveries must be refused.
func (h *health) refusal() error {
	if refused := h.durability.refused.Load(); refused != nil {
		return refused
	}
	if lack := h.claiming.lack.Load(); lack != nil {
		return lack
	}
	return nil
}

// startSafely returns an error if Run must not start: it matches driver.ErrSchema, or is an UnsafeError or a
// *driver.ServerError. A database that does not answer is looked at again later.
func (h *health) startSafely(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, durabilityTimeout)
	defer cancel()
	err := h.checkSchema(ctx)
	if errors.Is(err, driver.ErrSchema) {
		return fmt.Errorf("%w; in a program, call hookmigrate.Up before Run", err)
	}
	err = h.checkDurability(ctx)
	if _, unsafe := errors.AsType[*UnsafeError](err); unsafe {
		return err
	}
	if err == nil {
		err = h.claiming.check(ctx)
	}
	if lack, ok := errors.AsType[*driver.ServerError](err); ok {
		return fmt.Errorf("hookonce: %w", lack)
	}
	maintained(ctx, h.log, "testing the database", err)
	return nil
}
