package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// weaknessFileSystem is the name in allow_unsafe that permits a SQLite file on a shared file
// system.
const weaknessFileSystem = "shared_filesystem"

// checkDurability refuses a database that may lose acknowledged events. It only warns of weaknesses
// that are allowed by name.
func checkDurability(ctx context.Context, store driver.Store, allowed []string, log *slog.Logger) error {
	weaknesses, err := store.Weaknesses(ctx)
	if err != nil {
		return fmt.Errorf("reading the durability settings of the database: %w", err)
	}
	return judge(weaknesses, allowed, log)
}

// judge logs the allowed weaknesses, and returns an error that lists all others.
func judge(weaknesses []driver.Weakness, allowed []string, log *slog.Logger) error {
	refused, accepted := sortWeaknesses(weaknesses, allowed)
	for _, w := range accepted {
		log.Warn("the database may lose acknowledged events; the settings allow it", "setting", w.Setting,
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

// sortWeaknesses separates the weaknesses that allowed names from the rest.
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
	return fmt.Sprintf("change it, or allow the loss by name in the settings: allow_unsafe: [%s]", strings.Join(names, ", "))
}

// checkFileSystem refuses a file system that other machines may share. SQLite's write-ahead log
// needs memory shared by all processes, so two machines would corrupt the file.
func checkFileSystem(path string, allowed []string) error {
	name, err := sharedFileSystem(filepath.Dir(path))
	if err != nil {
		return err
	}
	return judgeFileSystem(path, name, allowed)
}

// judgeFileSystem is checkFileSystem for a file system with this name; "" means a local one.
func judgeFileSystem(path, name string, allowed []string) error {
	if name == "" || slices.Contains(allowed, weaknessFileSystem) {
		return nil
	}
	return &Error{
		Err: fmt.Errorf("the database %s is on a file system that other machines may share (%s): two machines at once would corrupt it", path, name),
		Remedy: "put it on a local disk, use PostgreSQL, or allow it by name in the settings: allow_unsafe: [" +
			weaknessFileSystem + "]",
	}
}
