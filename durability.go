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

// refusal returns an error if deliveries must be refused.
func (d *durability) refusal() error {
	if refused := d.refused.Load(); refused != nil {
		return refused
	}
	return nil
}

// weaknesses implements operate.Engine.Weaknesses.
func (in *Engine) weaknesses(ctx context.Context) (refused, allowed []driver.Weakness, err error) {
	found, err := in.store.Weaknesses(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("hookonce: reading the durability settings of the database: %w", err)
	}
	for _, w := range found {
		if slices.Contains(in.cfg.AllowUnsafe, w.Setting) {
			allowed = append(allowed, w)
		} else {
			refused = append(refused, w)
		}
	}
	return refused, allowed, nil
}

// checkDurability implements operate.Engine.CheckDurability.
func (in *Engine) checkDurability(ctx context.Context) error {
	refused, allowed, err := in.weaknesses(ctx)
	if err != nil {
		return err // the last look stays in force
	}
	d := &in.durability
	if before := d.accepted.Swap(&allowed); before == nil || !slices.Equal(*before, allowed) {
		for _, w := range allowed {
			in.log.Warn("the database may lose acknowledged events; the settings allow it", slog.String("setting", w.Setting),
				slog.String("value", w.Value), slog.String("effect", w.Effect), slog.String("remedy", w.Remedy))
		}
	}
	if len(refused) == 0 {
		if d.refused.Swap(nil) != nil {
			in.log.Info("the database keeps acknowledged events again; deliveries are accepted")
		}
		return nil
	}
	unsafe := &UnsafeError{Weaknesses: refused}
	if before := d.refused.Swap(unsafe); before == nil || !slices.Equal(before.Weaknesses, refused) {
		in.log.Error("deliveries are answered 503", slog.Any("error", unsafe))
	}
	return fmt.Errorf("hookonce: %w", unsafe)
}

// watchDurability is checkDurability for the upkeep. Its error says only that the settings could not
// be read.
func (in *Engine) watchDurability(ctx context.Context) error {
	err := in.checkDurability(ctx)
	if _, unsafe := errors.AsType[*UnsafeError](err); unsafe {
		return nil
	}
	return err
}

// startSafely returns an UnsafeError if Run must not start. A database that does not answer is looked
// at again later.
func (in *Engine) startSafely(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, durabilityTimeout)
	defer cancel()
	err := in.checkDurability(ctx)
	if _, unsafe := errors.AsType[*UnsafeError](err); unsafe {
		return err
	}
	in.maintained(ctx, "reading the database's durability settings", err)
	return nil
}
