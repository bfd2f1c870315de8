package operate

import (
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/provider"
)

// RetriedRequest is the result of RetryQuarantined: the events of the request, which are all stored
// now. An event is counted in one of Claimed, Reopened and Duplicates.
type RetriedRequest struct {
	Source     string
	EventIDs   []string // in the order of the request
	Claimed    int      // new events
	Reopened   int      // dead events that are due again
	Duplicates int
	// Kept counts the items of a batch that cannot be read or stored. Each is now in the quarantine
	// by itself.
	Kept int
}

// SourceStatus describes a configured source. It holds no secret.
type SourceStatus struct {
	Name         string
	Provider     provider.Name
	Scheme       string // "" for the provider's default
	Unsigned     bool   // nothing is verified
	Consume      string // "routes" or "sql"
	OnDead       string // the destination that is told of its dead events; "" for none
	Redelivery   string // "reopen" or "ack"
	Malformed    string // "reject" or "quarantine"
	ReplayGuard  bool
	MaxBody      int64
	AckTimeout   time.Duration
	DedupeWindow time.Duration
	Retention    time.Duration
	// ProviderRetries is how long the provider is known to repeat a delivery; 0 if unknown. With a
	// shorter DedupeWindow, a late delivery takes effect again.
	ProviderRetries time.Duration
	Routes          []string // names of the routes that can match its events
	// Reconciles says that the provider's list of events can be read, and ReconcileEvery how often Run does; 0: never.
	Reconciles     bool
	ReconcileEvery time.Duration
}

// RouteStatus describes a configured route.
type RouteStatus struct {
	Name        string
	Sources     []string // none means all
	Types       []string // none means all
	Conditional bool     // it has a Where
	Destination string
}

// DestinationStatus describes a configured destination, with its circuit as this process sees it.
// It holds no secret.
type DestinationStatus struct {
	Name string
	// Address is the scheme, host, port and path of the URL, without the parts that may be a credential.
	// With a Sender it is the result of its Address method, or "".
	Address     string
	Sender      bool // it has a Sender, such as that of a message broker
	Signed      bool // it has a secret
	Timeout     time.Duration
	Retry       driver.Retry
	Concurrency int
	Rate        limit.Rate
	OnDead      string // the destination that is told of dead letters; "" for none
	Circuit     relay.CircuitStatus
}
