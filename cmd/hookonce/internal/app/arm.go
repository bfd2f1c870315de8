package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// armPause is how often AwaitSecret looks.
const armPause = 500 * time.Millisecond

// disarmTimeout bounds the disarming of a source whose secret nobody waits for any more.
const disarmTimeout = 10 * time.Second

// AwaitSecret waits for the secret of a source that was armed, and returns it. Where
// ctx ends before, the source is disarmed; where its time is over, or it was disarmed,
// that is an error.
func AwaitSecret(ctx context.Context, store driver.Store, armed *driver.SourceSecrets) (string, error) {
	tick := time.NewTicker(armPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", errors.Join(errors.New("interrupted before a secret came"), disarm(ctx, store, armed.Source))
		case <-tick.C:
		}
		all, err := store.LearnedSecrets(ctx, []string{armed.Source})
		if errors.Is(err, driver.ErrUnavailable) {
			continue // ctx ends it
		}
		if err != nil {
			return "", fmt.Errorf("waiting for the secret: %w", err)
		}
		switch state := &all[0]; {
		case state.Armed():
		case !state.ArmedUntil.IsZero():
			return "", fmt.Errorf("no secret came for source %s until %s", armed.Source, state.ArmedUntil.Format(time.RFC3339))
		case learnedMore(armed.Secrets, state.Secrets):
			return state.Secrets[len(state.Secrets)-1].Secret, nil
		default:
			return "", fmt.Errorf("source %s was disarmed before a secret came", armed.Source)
		}
	}
}

// learnedMore reports whether the last secret of now is not that of before, or was
// learned again.
func learnedMore(before, now []driver.LearnedSecret) bool {
	if len(now) == 0 || len(before) == 0 {
		return len(now) > 0
	}
	last, former := now[len(now)-1], before[len(before)-1]
	return last.Secret != former.Secret || !last.LearnedAt.Equal(former.LearnedAt)
}

// disarm disarms a source, though ctx has ended.
func disarm(ctx context.Context, store driver.Store, source string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disarmTimeout)
	defer cancel()
	if _, err := store.Arm(ctx, &driver.ArmParams{Source: source}); err != nil {
		return fmt.Errorf("source %s is still armed: disarming it: %w", source, err)
	}
	return nil
}
