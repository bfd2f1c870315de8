package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/settingfile"
)

// credentials reads user and password of a PostgreSQL for each new connection, because both may change while the
// gateway runs.
type credentials struct {
	settings *config.Settings

	mu      sync.Mutex
	reading *credentialRead // guarded by mu; nil while nothing is read
}

// credentialRead is one reading, for all connections that wait for it. Once none does, as at the end of the process, a
// command is ended.
type credentialRead struct {
	end            context.CancelFunc
	waits          int // connections; guarded by the mutex of credentials
	done           chan struct{}
	user, password string // valid once done is closed
	err            error  // valid once done is closed
}

// beforeConnect is a hook of a pool.
func (c *credentials) beforeConnect(ctx context.Context, conn *pgx.ConnConfig) error {
	c.mu.Lock()
	r := c.reading
	if r == nil {
		r = &credentialRead{done: make(chan struct{}), user: conn.User, password: conn.Password}
		var reading context.Context
		reading, r.end = context.WithCancel(context.WithoutCancel(ctx))
		c.reading = r
		go c.run(reading, r)
	}
	r.waits++
	c.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		c.leave(r)
		return context.Cause(ctx)
	}
	if r.err != nil {
		return r.err
	}
	conn.User, conn.Password = r.user, r.password
	return nil
}

// leave ends a reading that no other connection waits for.
func (c *credentials) leave(r *credentialRead) {
	c.mu.Lock()
	r.waits--
	last := r.waits == 0
	if last && c.reading == r {
		c.reading = nil
	}
	c.mu.Unlock()
	if last {
		r.end()
		select { // the process may end next
		case <-r.done:
		case <-time.After(2 * time.Second): // a file that hangs hears nothing of the end
		}
	}
}

// run reads the credentials.
func (c *credentials) run(ctx context.Context, r *credentialRead) {
	defer r.end()
	r.err = c.read(ctx, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading == r {
		c.reading = nil
	}
	close(r.done)
}

func (c *credentials) read(ctx context.Context, r *credentialRead) error {
	database, source := c.settings.Database, &c.settings.DatabasePassword
	if c.settings.DatabaseFile != "" {
		text, err := readSecret(c.settings.DatabaseFile)
		if err != nil {
			return fmt.Errorf("the file of database: %w", err)
		}
		database = text
	}
	cfg, err := parsePostgres(database) // it reads a passfile, too
	if err != nil {
		return fmt.Errorf("the setting database: %w", err)
	}
	r.user, r.password = cfg.ConnConfig.User, cfg.ConnConfig.Password
	switch {
	case source.Text != "":
		r.password = string(source.Text)
	case source.File != "":
		if r.password, err = readSecret(source.File); err != nil {
			return fmt.Errorf("the file of database_password: %w", err)
		}
	case len(source.Command) > 0:
		if r.password, err = runPassword(ctx, source); err != nil {
			return fmt.Errorf("the command of database_password: %w", err)
		}
	}
	return nil
}

var errNoPassword = errors.New("it gives no password")

// A file that changes may be empty or away for a moment.
const (
	secretTries = 5
	secretPause = 100 * time.Millisecond
)

// readSecret reads a secret as the settings do.
func readSecret(path string) (secret string, err error) {
	for try := range secretTries {
		if try > 0 {
			time.Sleep(secretPause)
		}
		var file *settingfile.File
		if file, err = settingfile.Read(path, config.MaxSecretFile); err == nil {
			secret, err = secretOf(file.Data)
		}
		if err == nil {
			break
		}
	}
	return secret, err
}

func secretOf(data []byte) (string, error) {
	text := strings.TrimRight(string(data), "\r\n")
	if strings.TrimSpace(text) == "" {
		return "", errNoPassword
	}
	return text, nil
}

// runPassword runs a command for a password, with the environment of the gateway. Neither its output nor its arguments are
// told, because they may hold secrets. Processes that it started end with it.
func runPassword(ctx context.Context, source *config.Password) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, source.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, source.Command[0], source.Command[1:]...)
	var out bounded
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	endsWhole(cmd)
	err := cmd.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(err, exec.ErrWaitDelay):
		_ = cmd.Cancel()
		return "", errors.New("a process that it started did not end")
	case out.over:
		return "", fmt.Errorf("it printed more than %d bytes", config.MaxSecretFile)
	case errors.Is(ctx.Err(), context.Canceled):
		return "", errors.New("nothing waits for it any more")
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not end within %s", source.Timeout)
	case failed:
		return "", fmt.Errorf("it failed: %s", exit.ProcessState)
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("its program is not found")
	case err != nil:
		return "", errors.New("its program cannot be run")
	}
	return secretOf(out.kept)
}

// bounded keeps the first bytes of an output, and ends the command if there are more.
type bounded struct {
	kept []byte
	over bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if len(b.kept)+len(p) > config.MaxSecretFile {
		b.over = true
		return 0, io.ErrShortWrite
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}
