package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of the commands that a probe runs.
const (
	effectsTime = 15 * time.Second
	commandTime = time.Minute
	maxSaid     = 200 // bytes of an error output that are shown
)

// idMark stands for the id of the event in a command and in a body.
const idMark = "{id}"

// shell returns a command of sh that ends with ctx, together with the processes that it started.
func shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	ownGroup(cmd)
	cmd.WaitDelay = time.Second
	return cmd
}

// count runs the command of --effects for one id. The id holds letters, digits and '_' only, so it
// needs no quotes.
func count(ctx context.Context, command, id string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, effectsTime)
	defer cancel()
	cmd := shell(ctx, strings.ReplaceAll(command, idMark, id))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not done after %s", effectsTime)
		}
		return 0, errors.Join(err, said(stderr.String()))
	}
	text := strings.TrimSpace(stdout.String())
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("printed %q, which is not a number of effects", shorten(text))
	}
	return n, nil
}

// said returns the last line of an error output as an error; nil if there is none.
func said(text string) error {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	return errors.New(shorten(text[strings.LastIndexByte(text, '\n')+1:]))
}

func shorten(text string) string {
	if len(text) > maxSaid {
		return strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}

// command runs --restart, --break or --mend. It discards the output: a server that the command
// starts keeps its output open after the command ends.
func command(ctx context.Context, flag, text string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	if err := shell(ctx, text).Run(); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// counts runs the command of --effects for many ids, a few at a time.
func counts(ctx context.Context, command string, ids []string) (map[string]int, error) {
	const atOnce = 4
	var mu sync.Mutex
	var failed error
	found := make(map[string]int, len(ids))
	var running sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, id := range ids {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			n, err := count(ctx, command, id)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			found[id] = n
		})
	}
	running.Wait()
	return found, failed
}
