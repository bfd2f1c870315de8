package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/say"
)

// Limits of the commands that a probe runs.
const (
	effectsTime = 15 * time.Second
	commandTime = time.Minute
	maxSaid     = 200 // characters of an output that are shown
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
func (p *probe) count(ctx context.Context, id string) (int, error) {
	limit := cmp.Or(p.Count, effectsTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not end in %s", limit))
	defer cancel()
	cmd := shell(ctx, strings.ReplaceAll(p.Effects, idMark, id))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, said(err, stderr.String())
	}
	text := strings.TrimSpace(stdout.String())
	n, err := strconv.Atoi(text)
	switch {
	case text == "":
		return 0, errors.New("it printed nothing; it must print one number")
	case err != nil || n < 0:
		return 0, fmt.Errorf("it printed %q; it must print one number", say.Short(text, maxSaid))
	}
	return n, nil
}

// said adds the last line of an error output to an error.
func said(err error, text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, say.Short(text[strings.LastIndexByte(text, '\n')+1:], maxSaid))
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

// effects is how often an event took effect, or the error of counting it.
type effects struct {
	n   int
	err error
}

// counts runs the command of --effects for many ids, a few at a time. A number that is lower than an
// earlier one is an error: nothing takes an effect back.
func (p *probe) counts(ctx context.Context, ids []string) map[string]effects {
	const atOnce = 4
	var mu sync.Mutex
	found := make(map[string]effects, len(ids))
	var running sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, id := range ids {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			n, err := p.count(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if most := p.most[id]; err == nil && n < most {
				err = fmt.Errorf("it printed %d, then %d, for the same event", most, n)
			}
			p.most[id] = max(p.most[id], n)
			found[id] = effects{n, err}
		})
	}
	running.Wait()
	return found
}
