package driver

import (
	"errors"
	"fmt"
	"time"
)

// MaxLearnedSecrets is how many secrets of one source are kept: every one of them is
// tried on every request.
const MaxLearnedSecrets = 32

// MaxSecret is the most bytes that a secret may have that a provider hands over.
const MaxSecret = 512

// ErrTooManySecrets means that a source has learned all the secrets that it may.
var ErrTooManySecrets = errors.New("the source has too many learned secrets")

// ArmParams are the parameters of Store.Arm.
type ArmParams struct {
	Source string
	For    time.Duration // 0 disarms; it must not be negative
	// Replace makes the source forget all that it learned before, when it learns the
	// next one.
	Replace bool
	Now     time.Time // tests only; zero means the database's clock
}

// LearnParams are the parameters of Store.LearnSecret.
type LearnParams struct {
	Source string
	Secret string    // at most MaxSecret bytes
	Now    time.Time // tests only; zero means the database's clock
}

// SourceSecrets is what a source has learned.
type SourceSecrets struct {
	Source  string
	Secrets []LearnedSecret // that which was learned last comes last
	// ArmedUntil is when the source stops to be armed; zero if it is not armed. One
	// that was armed and learned nothing in its time stays in the past.
	ArmedUntil time.Time
	Now        time.Time // of the database
}

// Armed reports whether the source takes a secret.
func (s *SourceSecrets) Armed() bool { return s.ArmedUntil.After(s.Now) }

// LearnedSecret is a secret that a provider handed over.
type LearnedSecret struct {
	Secret    string
	LearnedAt time.Time
}

// Format keeps the secret out of logs and messages.
func (s LearnedSecret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "<secret>") }

// MarshalJSON does the same for JSON.
func (s LearnedSecret) MarshalJSON() ([]byte, error) { return []byte(`"<secret>"`), nil }

// Check reports what a store cannot take. The error matches ErrBadRow.
func (p *ArmParams) Check() error {
	if p.For < 0 {
		return fmt.Errorf("%w: the time for which a source is armed must not be negative", ErrBadRow)
	}
	return checkSourceText(p.Source)
}

// Check reports what a store cannot take. The error matches ErrBadRow.
func (p *LearnParams) Check() error {
	if p.Secret == "" || len(p.Secret) > MaxSecret || !IsText(p.Secret) {
		return fmt.Errorf("%w: a secret must be 1 to %d bytes of text", ErrBadRow, MaxSecret)
	}
	return checkSourceText(p.Source)
}

func checkSourceText(source string) error {
	if !IsText(source) {
		return fmt.Errorf("%w: the name of the source is not valid UTF-8, or holds a NUL", ErrBadRow)
	}
	return nil
}
