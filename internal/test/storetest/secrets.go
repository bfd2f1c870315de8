package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

func secretCases() []testCase {
	return []testCase{
		{"LearnedOnce", learnedOnce},
		{"NotArmed", learnNotArmed},
		{"Expired", learnExpired},
		{"Replaced", learnReplaced},
		{"Bounded", learnBounded},
		{"Refused", learnRefused},
	}
}

func (f *fixture) arm(at time.Time, source string, long time.Duration, replace bool) *driver.SourceSecrets {
	f.Helper()
	got, err := f.s.Arm(f.Context(), &driver.ArmParams{Source: source, For: long, Replace: replace, Now: at})
	if err != nil {
		f.Fatalf("Arm(%q): %v", source, err)
	}
	return got
}

func (f *fixture) learn(at time.Time, source, secret string, want bool) {
	f.Helper()
	got, err := f.s.LearnSecret(f.Context(), &driver.LearnParams{Source: source, Secret: secret, Now: at})
	if err != nil || got != want {
		f.Errorf("LearnSecret(%q): got %v, error %v, want %v", source, got, err, want)
	}
}

// sameSecrets compares a source's learned secrets, in order, and the time until which it is armed.
func (f *fixture) sameSecrets(source string, armedUntil time.Time, want ...driver.LearnedSecret) {
	f.Helper()
	all, err := f.s.LearnedSecrets(f.Context(), []string{"none", source})
	if err != nil || len(all) != 2 {
		f.Fatalf("LearnedSecrets: %d sources, error %v", len(all), err)
	}
	expected := []driver.SourceSecrets{{Source: "none"}, {Source: source, Secrets: want, ArmedUntil: armedUntil}}
	ignore := cmpopts.IgnoreFields(driver.SourceSecrets{}, "Now")
	plain := cmp.Transformer("plain", func(s driver.LearnedSecret) string { return s.Secret + " " + s.LearnedAt.String() })
	same(f, "secrets of "+source, expected, all, ignore, plain)
	if all[1].Now.IsZero() {
		f.Error("the database's clock is missing")
	}
}

func learned(secret string, at time.Time) driver.LearnedSecret {
	return driver.LearnedSecret{Secret: secret, LearnedAt: at}
}

func learnedOnce(f *fixture) {
	f.sameSecrets("asana", time.Time{})
	until := t0.Add(time.Minute)
	if got := f.arm(t0, "asana", time.Minute, false); !got.ArmedUntil.Equal(until) || got.Source != "asana" {
		f.Errorf("Arm returned %+v", got)
	}
	f.sameSecrets("asana", until)
	f.learn(t0.Add(time.Second), "asana", "one", true)
	f.learn(t0.Add(time.Second), "asana", "two", false)
	f.sameSecrets("asana", time.Time{}, learned("one", t0.Add(time.Second)))

	f.arm(t0.Add(time.Hour), "asana", time.Minute, false)
	f.learn(t0.Add(time.Hour), "asana", "three", true)
	f.arm(t0.Add(2*time.Hour), "asana", time.Minute, false)
	f.learn(t0.Add(2*time.Hour), "asana", "one", true) // learned again: now the newest
	f.sameSecrets("asana", time.Time{}, learned("three", t0.Add(time.Hour)), learned("one", t0.Add(2*time.Hour)))
}

func learnNotArmed(f *fixture) {
	f.learn(t0, "asana", "one", false)
	f.arm(t0, "notion", time.Minute, false)
	f.learn(t0, "asana", "one", false) // belongs to another source
	f.sameSecrets("asana", time.Time{})
	f.sameSecrets("notion", t0.Add(time.Minute))
	f.arm(t0, "notion", 0, false) // disarm
	f.learn(t0, "notion", "one", false)
	f.arm(t0, "notion", time.Hour, false)
	f.arm(t0, "notion", time.Minute, false) // the latest call counts
	f.learn(t0.Add(2*time.Minute), "notion", "one", false)
	f.sameSecrets("notion", t0.Add(time.Minute))
}

// learnExpired checks that arming ends at the exact time, and by the database's clock if no time is
// given.
func learnExpired(f *fixture) {
	f.arm(t0, "asana", time.Minute, false)
	f.learn(t0.Add(time.Minute), "asana", "late", false)
	f.learn(t0.Add(time.Minute-time.Microsecond), "asana", "just", true)
	f.sameSecrets("asana", time.Time{}, learned("just", t0.Add(time.Minute-time.Microsecond)))

	armed := f.arm(time.Time{}, "notion", time.Hour, false)
	if !armed.Armed() || armed.ArmedUntil.Sub(armed.Now) > time.Hour {
		f.Errorf("armed for an hour by the database's clock: %+v", armed)
	}
	f.learn(time.Time{}, "notion", "now", true)
	past := f.arm(t0, "notion", time.Hour, false) // t0 is far from the database's clock
	f.learn(time.Time{}, "notion", "other", past.Armed())
}

func learnReplaced(f *fixture) {
	for i, secret := range []string{"a", "b", "c"} {
		f.arm(t0, "asana", time.Minute, false)
		f.learn(t0.Add(time.Duration(i)*time.Second), "asana", secret, true)
	}
	f.arm(t0, "notion", time.Minute, false)
	f.learn(t0, "notion", "other", true)
	f.arm(t0, "asana", time.Minute, true)
	f.sameSecrets("asana", t0.Add(time.Minute), learned("a", t0), learned("b", t0.Add(time.Second)), learned("c", t0.Add(2*time.Second)))
	f.learn(t0.Add(time.Minute/2), "asana", "b", true) // a known secret
	f.sameSecrets("asana", time.Time{}, learned("b", t0.Add(time.Minute/2)))
	f.sameSecrets("notion", time.Time{}, learned("other", t0))
}

func learnBounded(f *fixture) {
	for i := range driver.MaxLearnedSecrets {
		f.arm(t0, "asana", time.Minute, false)
		f.learn(t0, "asana", fmt.Sprint("secret ", i), true)
	}
	_, err := f.s.Arm(f.Context(), &driver.ArmParams{Source: "asana", For: time.Minute, Now: t0})
	if !errors.Is(err, driver.ErrTooManySecrets) {
		f.Errorf("Arm beyond the bound: %v", err)
	}
	f.learn(t0, "asana", "one more", false)
	f.arm(t0, "asana", 0, false) // disarming always works
	f.arm(t0, "asana", time.Minute, true)
	f.learn(t0, "asana", "the only one", true)
	f.sameSecrets("asana", time.Time{}, learned("the only one", t0))
}

func learnRefused(f *fixture) {
	f.arm(t0, "asana", time.Minute, false)
	for _, secret := range []string{"", "a\x00b", "a\xff", strings.Repeat("x", driver.MaxSecret+1)} {
		if got, err := f.s.LearnSecret(f.Context(), &driver.LearnParams{Source: "asana", Secret: secret, Now: t0}); got || !errors.Is(err, driver.ErrBadRow) {
			f.Errorf("LearnSecret(%.10q): got %v, error %v", secret, got, err)
		}
	}
	if _, err := f.s.Arm(f.Context(), &driver.ArmParams{Source: "asana", For: -1, Now: t0}); !errors.Is(err, driver.ErrBadRow) {
		f.Errorf("Arm for a negative time: %v", err)
	}
	long := strings.Repeat("é", driver.MaxSecret/2)
	f.learn(t0, "asana", long, true)
	f.sameSecrets("asana", time.Time{}, learned(long, t0))
	if got := fmt.Sprintf("%v %+v %s", learned(long, t0), learned(long, t0), learned(long, t0)); strings.Contains(got, "é") {
		f.Errorf("printed: %s", got)
	}
}

// raceLearn delivers many different secrets while a source is armed. One wins.
func raceLearn(p *pair) {
	const callers = 16
	for round := range group.Rounds(4, 10) {
		p.arm(t0, "asana", time.Minute, round%2 == 0)
		var mu sync.Mutex
		var winners []string
		p.atOnce(callers, func(s driver.Store, i int) error {
			secret := fmt.Sprintf("round %d caller %d", round, i)
			won, err := s.LearnSecret(p.Context(), &driver.LearnParams{Source: "asana", Secret: secret, Now: t0.Add(time.Second)})
			if won {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, secret)
			}
			return err
		})
		all, err := p.stores[1].LearnedSecrets(p.Context(), []string{"asana"})
		if err != nil || len(winners) != 1 || !all[0].ArmedUntil.IsZero() || len(all[0].Secrets) != 1+round%2 {
			p.Fatalf("round %d: the winners are %q, %d secrets are kept, armed until %v, error %v",
				round, winners, len(all[0].Secrets), all[0].ArmedUntil, err)
		}
		found := false
		for _, s := range all[0].Secrets {
			found = found || s.Secret == winners[0]
		}
		if !found {
			p.Errorf("round %d: the winner's secret is not kept", round)
		}
	}
}
