package hookonce

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/hookonce/hookonce/provider"
)

// SourceStatus describes a configured source. It holds no secret.
type SourceStatus struct {
	Name         string
	Provider     provider.Name
	Scheme       string // "" for the provider's default
	Unsigned     bool   // nothing is verified
	Consume      Consume
	OnDead       string // the destination that is told of its dead events; "" for none
	Redelivery   Redelivery
	Malformed    Malformed
	ReplayGuard  bool
	MaxBody      int64
	AckTimeout   time.Duration
	DedupeWindow time.Duration
	Retention    time.Duration
	// ProviderRetries is how long the provider is known to repeat a delivery; 0 if unknown. With a
	// shorter DedupeWindow, a late delivery takes effect again.
	ProviderRetries time.Duration
	Routes          []string // names of the routes that can match its events
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
	// Address is the scheme, host and port of the URL: the rest may hold a credential. With a Sender it
	// is the result of its Address method, or "".
	Address     string
	Sender      bool // it has a Sender, such as that of a message broker
	Signed      bool // it has a secret
	Timeout     time.Duration
	Retry       Retry
	Concurrency int
	Rate        Rate
	OnDead      string // the destination that is told of dead letters; "" for none
	Circuit     CircuitStatus
}

// CircuitStatus is the circuit of a destination, as this process sees it.
type CircuitStatus struct {
	Failures int  // sends in a row that failed
	Open     bool // only a probe now and then is sent
	// Since and NextProbe are zero unless the circuit is open.
	Since, NextProbe time.Time
}

// Sources returns the sources by name.
func (in *Engine) Sources() []SourceStatus {
	var all []SourceStatus
	for _, s := range in.setup.Load().sources {
		status := SourceStatus{
			Name: s.Name, Provider: s.Provider, Scheme: s.Scheme, Unsigned: s.unsigned,
			Consume: cmp.Or(s.Consume, consumeRoutes), OnDead: s.OnDead,
			Redelivery: cmp.Or(s.Redelivery, redeliveryReopen), Malformed: cmp.Or(s.Malformed, malformedReject),
			ReplayGuard: s.ReplayGuard, MaxBody: s.MaxBody, AckTimeout: s.AckTimeout,
			DedupeWindow: cmp.Or(s.DedupeWindow, in.cfg.DedupeWindow), Retention: cmp.Or(s.Retention, in.cfg.Retention),
			ProviderRetries: s.retries,
		}
		for _, r := range s.routes {
			status.Routes = append(status.Routes, r.Name)
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b SourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Destinations returns the destinations by name.
func (in *Engine) Destinations() []DestinationStatus {
	var all []DestinationStatus
	for _, d := range in.setup.Load().destinations {
		status := DestinationStatus{
			Name: d.Name, Signed: d.Secret != "", Timeout: d.Timeout, Retry: d.Retry,
			Concurrency: d.Concurrency, Rate: d.Rate, Circuit: CircuitStatus(d.relayed.Circuit.Status()), Sender: d.Sender != nil,
			OnDead: d.OnDead,
		}
		if s, ok := d.Sender.(interface{ Address() string }); ok {
			status.Address = s.Address()
		} else if u, err := url.Parse(d.URL); err == nil && !status.Sender {
			status.Address = u.Scheme + "://" + u.Host
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b DestinationStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Routes returns the routes in the order of the Config.
func (in *Engine) Routes() []RouteStatus {
	var all []RouteStatus
	for _, r := range in.setup.Load().routes {
		all = append(all, RouteStatus{
			Name: r.Name, Sources: slices.Clone(r.Sources), Types: slices.Clone(r.Types),
			Conditional: r.Where != nil, Destination: r.To,
		})
	}
	return all
}
