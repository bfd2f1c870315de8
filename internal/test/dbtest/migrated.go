package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// migratedSchema is the default schema of hookonce's stores.
const migratedSchema = "hookonce"

// migratedFolder returns the folder with the files of a server that has run once, and has the tables. The first caller
// makes it from the files in the folder template, where it lies.
func migratedFolder(template string) (string, error) {
	// Other builds may have other steps.
	folder := filepath.Join(template, fmt.Sprintf("migrated-%x", uint64(stepsVersion())))
	unlock, err := lockFile(folder+".lock", lockExclusive)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(passwordFile(folder)); err == nil {
		return folder, nil
	}
	s, err := start(&Options{}, template)
	if err != nil {
		return "", err
	}
	if err = errors.Join(s.migrate(), s.end(syscall.SIGINT), os.MkdirAll(folder, 0o700)); err == nil {
		err = copyFiles(s.data(), filepath.Join(folder, "data"))
	}
	if err == nil {
		err = os.WriteFile(passwordFile(folder), []byte(s.password), 0o600) // last, as it tells that the rest is there
	}
	return folder, errors.Join(err, s.destroy())
}

// migrate makes hookonce's tables.
func (s *Server) migrate() error {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	for _, step := range hookmigrate.Postgres(migratedSchema) {
		if _, stepErr := conn.Exec(ctx, step.SQL); stepErr != nil {
			err = errors.Join(err, fmt.Errorf("step %d: %w", step.Version, stepErr))
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

// copyFiles copies a folder with the owners of its files.
func copyFiles(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the files of a server: %w: %s", err, out)
	}
	return nil
}
