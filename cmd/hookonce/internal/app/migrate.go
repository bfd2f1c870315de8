package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	refused, accepted := sortWeaknesses(weaknesses, allowed)
	for _, w := range accepted {
		log.Warn("the database may lose acknowledged events, and is allowed to", "setting", w.Setting,
			"value", w.Value, "effect", w.Effect, "remedy", w.Remedy)
	}
	if len(refused) == 0 {
		return nil
	}
	texts := make([]string, len(refused))
	for i, w := range refused {
		texts[i] = weaknessText(w)
	}
	return &Error{
		Err:    fmt.Errorf("the database may lose acknowledged events:\n  %s", strings.Join(texts, "\n  ")),
		Remedy: weaknessRemedy(refused),
	}
}

// sortWeaknesses tells those that allowed does not name from those it does.
func sortWeaknesses(weaknesses []driver.Weakness, allowed []string) (refused, accepted []driver.Weakness) {
	for _, w := range weaknesses {
		if slices.Contains(allowed, w.Setting) {
			accepted = append(accepted, w)
		} else {
			refused = append(refused, w)
		}
	}
	return refused, accepted
}

func weaknessText(w driver.Weakness) string {
	return fmt.Sprintf("%s is %s: %s %s", w.Setting, w.Value, w.Effect, w.Remedy)
}

func weaknessRemedy(refused []driver.Weakness) string {
	names := make([]string, len(refused))
	for i, w := range refused {
		names[i] = w.Setting
	}
	return fmt.Sprintf("change that, or accept the loss by name in the settings: allow_unsafe: [%s]", strings.Join(names, ", "))
}
