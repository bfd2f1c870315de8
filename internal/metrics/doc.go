// Package metrics keeps the metrics of a gateway and serves them to Prometheus. docs/observability.md lists
// them.
//
// Label values come from closed lists and from the settings, never from a request.
package metrics
