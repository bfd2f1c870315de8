package deadnews

import "time"

// Types and functions for the tests, which cannot be in this package: the stores import it.
type (
	Summary = summary
	Group   = group
	Sample  = sample
)

const (
	Settle     = settle
	MaxGroups  = maxGroups
	MaxSamples = maxSamples
)

var SumUp = sumUp

// AskAgain lets the next call of Tell ask the store at once.
func (t *Teller) AskAgain() { t.asked = time.Time{} }
