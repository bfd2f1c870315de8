package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// armPause is how often AwaitSecret polls.
const armPause = 500 * time.Millisecond

// disarmTimeout bounds disarming the source after AwaitSecret was interrupted.
const disarmTimeout = 10 * time.Second

// AwaitSecret blocks until the armed source has learned a secret that armed lacks, and returns it. If ctx
// ends first, it disarms the source and returns an error. It also fails if the time is over, or if
// the source was disarmed.
func AwaitSecret(ctx context.Context, store driver.Store, armed *driver.SourceSecrets) (string, error) {
	again := "hookonce sources arm " + armed.Source + ", and let the provider send the secret meanwhile"
	tick := time.NewTicker(armPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := disarm(ctx, store, armed.Source); err != nil {
				return "", errors.Join(errors.New("interrupted before a secret came"), err)
			}
			return "", Errorf("interrupted before a secret came; the source is disarmed").Try(again)
		case <-tick.C:
		}
		all, err := store.LearnedSecrets(ctx, []string{armed.Source})
		if errors.Is(err, driver.ErrUnavailable) {
			continue // retries until ctx ends
		}
		if err != nil {
			return "", fmt.Errorf("waiting for the secret: %w", err)
		}
		switch state := &all[0]; {
		case state.Armed():
		case !state.ArmedUntil.IsZero():
			return "", Errorf("no secret came for source %s in time", armed.Source).Try(again)
		case learnedMore(armed.Secrets, state.Secrets):
			return state.Secrets[len(state.Secrets)-1].Secret, nil
		default:
			return "", Errorf("source %s was disarmed before a secret came", armed.Source).Try(again)
		}
	}
}

// learnedMore reports whether the newest secret of now differs from the newest of old, or was
// learned again.
func learnedMore(old, now []driver.LearnedSecret) bool {
	if len(now) == 0 || len(old) == 0 {
		return len(now) > 0
	}
	last, former := now[len(now)-1], old[len(old)-1]
	return last.Secret != former.Secret || !last.LearnedAt.Equal(former.LearnedAt)
}

// disarm disarms a source after ctx has ended.
func disarm(ctx context.Context, store driver.Store, source string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disarmTimeout)
	defer cancel()
	if _, err := store.Arm(ctx, &driver.ArmParams{Source: source}); err != nil {
		return fmt.Errorf("disarming source %s failed, so it is still armed: %w", source, err)
	}
	return nil
}
