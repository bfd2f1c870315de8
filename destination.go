package hookonce

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/hookonce/hookonce/internal/send"
)

// destination is a Destination made ready.
type destination struct {
	Destination
	target send.Target // unless it has a Sender
	rate   *bucket
}

func newDestination(d Destination) (*destination, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("destination %q: "+format, append([]any{d.Name}, args...)...))
	}
	if d.Name == "" {
		fault("it needs a name")
	}
	for _, err := range d.checkTarget() {
		fault("%w", err)
	}
	if d.Timeout < 0 || d.Concurrency < 0 {
		fault("timeout and concurrency must not be negative")
	}
	if err := d.Rate.check(); err != nil {
		fault("%w", err)
	}
	setDefault(&d.Timeout, DefaultSendTimeout)
	setDefault(&d.Concurrency, DefaultConcurrency)
	setDefault(&d.Retry.Attempts, DefaultSendAttempts)
	setDefault(&d.Retry.First, DefaultFirstRetry)
	setDefault(&d.Retry.Max, max(DefaultMaxRetry, d.Retry.First))
	if err := d.Retry.check(); err != nil {
		fault("retry: %w", err)
	}
	return &destination{
		Destination: d,
		target:      send.Target{URL: d.URL, Secret: d.Secret, Timeout: d.Timeout, AllowPrivate: d.AllowPrivate},
		rate:        newBucket(d.Rate),
	}, errors.Join(faults...)
}

// checkTarget checks where messages go.
func (d *Destination) checkTarget() (faults []error) {
	if d.Sender != nil {
		if f, ok := d.Sender.(SenderFunc); ok && f == nil {
			faults = append(faults, errors.New("its Sender is a nil function"))
		}
		if d.URL != "" {
			faults = append(faults, errors.New("it has a URL and a Sender: leave one out"))
		}
		if d.Secret != "" || d.AllowPrivate {
			faults = append(faults, errors.New("a secret and private addresses are of HTTP: leave them out with a Sender"))
		}
		return faults
	}
	if d.URL == "" {
		faults = append(faults, errors.New("it needs a URL or a Sender"))
	} else if err := send.CheckURL(d.URL); err != nil {
		faults = append(faults, err)
	}
	if d.Secret != "" {
		if _, err := send.CheckSecret(d.Secret); err != nil {
			faults = append(faults, fmt.Errorf("the secret: %w", err))
		}
	}
	return faults
}

// same reports whether other is known to be the same. Of Senders that cannot be
// compared, such as functions, nothing is known.
func (d Destination) same(other Destination) bool {
	if !d.sameTarget(other) {
		return false
	}
	d.Sender, other.Sender = nil, nil
	return d == other
}

// sameTarget reports whether what is known of d's circuit holds for other.
func (d Destination) sameTarget(other Destination) bool {
	if d.Sender == nil || other.Sender == nil {
		return d.Sender == nil && other.Sender == nil && d.URL == other.URL
	}
	return reflect.ValueOf(d.Sender).Comparable() && reflect.ValueOf(other.Sender).Comparable() && d.Sender == other.Sender
}
