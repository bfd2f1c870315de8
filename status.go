package hookonce

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
)

// sourceStatus returns the sources by name. cfg holds the windows of all.
func (s *setup) sourceStatus(cfg *Config) []operate.SourceStatus {
	var all []operate.SourceStatus
	for _, src := range s.sources {
		status := operate.SourceStatus{
			Name: src.Name, Provider: src.Provider, Scheme: src.Scheme, Unsigned: src.unsigned,
			Consume: string(cmp.Or(src.Consume, consumeRoutes)), OnDead: src.OnDead,
			Redelivery: string(cmp.Or(src.Redelivery, redeliveryReopen)), Malformed: string(cmp.Or(src.Malformed, malformedReject)),
			ReplayGuard: src.ReplayGuard, MaxBody: src.MaxBody, AckTimeout: src.AckTimeout,
			DedupeWindow: cmp.Or(src.DedupeWindow, cfg.DedupeWindow), Retention: cmp.Or(src.Retention, cfg.Retention),
			ProviderRetries: src.retries,
		}
		for _, r := range src.routes {
			status.Routes = append(status.Routes, r.Name)
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b operate.SourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// destinationStatus returns the destinations by name.
func (s *setup) destinationStatus() []operate.DestinationStatus {
	var all []operate.DestinationStatus
	for _, d := range s.destinations {
		status := operate.DestinationStatus{
			Name: d.Name, Signed: d.Secret != "", Timeout: d.Timeout, Retry: driver.Retry(d.Retry),
			Concurrency: d.Concurrency, Rate: limit.Rate(d.Rate), Circuit: d.relayed.Circuit.Status(), Sender: d.Sender != nil,
			OnDead: d.OnDead,
		}
		if sender, ok := d.Sender.(interface{ Address() string }); ok {
			status.Address = sender.Address()
		} else if u, err := url.Parse(d.URL); err == nil && !status.Sender {
			status.Address = u.Scheme + "://" + u.Host
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b operate.DestinationStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// routeStatus returns the routes in the order of the Config.
func (s *setup) routeStatus() []operate.RouteStatus {
	var all []operate.RouteStatus
	for _, r := range s.routes {
		all = append(all, operate.RouteStatus{
			Name: r.Name, Sources: slices.Clone(r.Sources), Types: slices.Clone(r.Types),
			Conditional: r.Where != nil, Destination: r.To,
		})
	}
	return all
}
