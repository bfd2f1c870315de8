package driver

import (
	"errors"
	"fmt"
	"time"
)

// MaxLearnedSecrets is the maximum number of learned secrets of one source. There is a limit
// because every request is checked against each of them.
const MaxLearnedSecrets = 32

// MaxSecret is the maximum size of a secret that a provider hands over, in bytes.
const MaxSecret = 512

// ErrTooManySecrets means that a source has already learned MaxLearnedSecrets secrets.
var ErrTooManySecrets = errors.New("the source has too many learned secrets")

// ArmParams are the parameters of Store.Arm.
type ArmParams struct {
	Source string
	For    time.Duration // 0 disarms; it must not be negative
	// Replace makes the source forget all earlier learned secrets when it learns the next one.
	Replace bool
	Now     time.Time // tests only; zero means the database's clock
}

// LearnParams are the parameters of Store.LearnSecret.
type LearnParams struct {
	Source string
	Secret string    // at most MaxSecret bytes
	Now    time.Time // tests only; zero means the database's clock
}

// SourceSecrets are the learned secrets of a source.
type SourceSecrets struct {
	Source  string
	Secrets []LearnedSecret // latest last
	// ArmedUntil is when arming ends; zero if the source is not armed. It stays in the
	// past if the source learned nothing while it was armed.
	ArmedUntil time.Time
	Now        time.Time // of the database
}

// Armed reports whether the source accepts a secret now.
func (s *SourceSecrets) Armed() bool { return s.ArmedUntil.After(s.Now) }

// LearnedSecret is a secret that a provider handed over.
type LearnedSecret struct {
	Secret    string
	LearnedAt time.Time
}

// Format keeps the secret out of logs and error messages.
func (s LearnedSecret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "<secret>") }

// MarshalJSON keeps the secret out of JSON.
func (s LearnedSecret) MarshalJSON() ([]byte, error) { return []byte(`"<secret>"`), nil }

// Check returns an error that matches ErrBadRow if a store cannot store the parameters.
func (p *ArmParams) Check() error {
	if p.For < 0 {
		return fmt.Errorf("%w: the arming time of a source must not be negative", ErrBadRow)
	}
	return checkSourceText(p.Source)
}

// Check returns an error that matches ErrBadRow if a store cannot store the parameters.
func (p *LearnParams) Check() error {
	if p.Secret == "" || len(p.Secret) > MaxSecret || !IsText(p.Secret) {
		return fmt.Errorf("%w: a secret must be 1 to %d bytes of text", ErrBadRow, MaxSecret)
	}
	return checkSourceText(p.Source)
}

func checkSourceText(source string) error {
	if !IsText(source) {
		return fmt.Errorf("%w: the name of the source is not valid UTF-8, or contains a NUL", ErrBadRow)
	}
	return nil
}
