package tell

import "github.com/hookonce/hookonce/internal/runbook"

// The outcomes of a delivery.
const (
	OK          = "ok"
	Duplicate   = "duplicate"
	Reopened    = "reopened"
	Malformed   = "malformed"
	Handshake   = "handshake"
	Refused     = "refused"
	Failed      = "failed"
	Unavailable = "unavailable"
)

// DeliveryOutcomes returns all outcomes of a delivery.
func DeliveryOutcomes() []string {
	return []string{OK, Duplicate, Reopened, Malformed, Handshake, Refused, Failed, Unavailable}
}

// MessageOutcomes returns all outcomes of an attempt to send a message.
func MessageOutcomes() []string { return []string{"sent", "retry", "dead", "skipped"} }

// The reasons of a refusal.
const (
	ReasonUnknownSource    = "unknown_source"
	ReasonMethod           = "method"
	ReasonHeaders          = "headers"
	ReasonTooLarge         = "too_large"
	ReasonEncoding         = "encoding"
	ReasonSlowBody         = "slow_body"
	ReasonUnreadable       = "unreadable_body"
	ReasonSignatureMissing = "signature_missing"
	ReasonSignatureWrong   = "signature_wrong" // also repeated and malformed ones
	ReasonTooOld           = "too_old"
	ReasonTooNew           = "too_new"
	ReasonHandshake        = "handshake"
	ReasonSecret           = "secret" // one that a provider handed over
	ReasonRate             = "rate"
	ReasonUnverifiedRate   = "unverified_rate"
)

// Kept returns all reasons of the refused requests that are kept: also Unavailable, of those answered 5xx.
func Kept() []string { return append(Reasons(), Unavailable) }

// Reasons returns all reasons of a refusal.
func Reasons() []string {
	return []string{
		ReasonUnknownSource, ReasonMethod, ReasonHeaders, ReasonTooLarge, ReasonEncoding, ReasonSlowBody, ReasonUnreadable,
		ReasonSignatureMissing, ReasonSignatureWrong, ReasonTooOld, ReasonTooNew, ReasonHandshake, ReasonSecret,
		ReasonRate, ReasonUnverifiedRate,
	}
}

// EntryOf returns the entries of the runbook about requests that were refused for a reason; "" for an unknown one.
func EntryOf(reason string) runbook.Entry {
	switch reason {
	case ReasonSignatureMissing, ReasonSignatureWrong, ReasonTooOld, ReasonTooNew:
		return runbook.Unauthorized
	case ReasonUnknownSource, ReasonMethod:
		return runbook.NotFound
	case ReasonTooLarge, ReasonEncoding, ReasonHeaders, ReasonSlowBody, ReasonUnreadable:
		return runbook.TooLarge
	case ReasonRate, ReasonUnverifiedRate:
		return runbook.TooMany
	case ReasonHandshake, ReasonSecret:
		return runbook.SetUp
	case Unavailable:
		return runbook.Unavailable
	}
	return ""
}
