package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// prepareSchema brings the schema up to date where the settings say auto, and
// otherwise refuses one that is not.
func prepareSchema(ctx context.Context, store driver.Store, auto bool, log *slog.Logger) error {
	if !auto {
		return CheckSchema(ctx, store)
	}
	applied, err := hookmigrate.Up(ctx, store)
	if err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	for _, step := range applied {
		log.Info("migrated the database", "version", step.Version, "step", step.Name)
	}
	return nil
}

// CheckSchema refuses a database whose schema is not the one that this program
// works with. The error matches driver.ErrSchema.
func CheckSchema(ctx context.Context, store driver.Store) error {
	err := hookmigrate.Check(ctx, store)
	if !errors.Is(err, driver.ErrSchema) {
		return err
	}
	return &Error{Err: err, Remedy: "hookonce migrate status"}
}

// checkDurability refuses a database that may lose what was acknowledged, and
// warns where each weakness was allowed by name.
func checkDurability(ctx context.Context, store driver.Store, allowed []string, log *slog.Logger) error {
	weaknesses, err := store.Weaknesses(ctx)
	if err != nil {
		return fmt.Errorf("reading the durability settings of the database: %w", err)
	}
	return judge(weaknesses, allowed, log)
}

// judge returns an error that tells all of the weaknesses that allowed does
// not name, and logs the others.
func judge(weaknesses []driver.Weakness, allowed []string, log *slog.Logger) error {
	names := make(map[string]bool, len(allowed))
	for _, name := range allowed {
		names[name] = true
	}
	var refused, refusedNames []string
	for _, w := range weaknesses {
		if names[w.Setting] {
			log.Warn("the database may lose acknowledged events, and is allowed to", "setting", w.Setting,
				"value", w.Value, "effect", w.Effect, "remedy", w.Remedy)
			continue
		}
		refused = append(refused, fmt.Sprintf("%s is %s: %s %s", w.Setting, w.Value, w.Effect, w.Remedy))
		refusedNames = append(refusedNames, w.Setting)
	}
	if len(refused) == 0 {
		return nil
	}
	return &Error{
		Err: fmt.Errorf("the database may lose acknowledged events:\n  %s", strings.Join(refused, "\n  ")),
		Remedy: fmt.Sprintf("change that, or accept the loss by name in the settings: allow_unsafe: [%s]",
			strings.Join(refusedNames, ", ")),
	}
}
