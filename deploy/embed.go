// Package deploy holds files for running the gateway. hookonce init writes the unit and the compose
// file of one gateway. HAProxy, Docker Compose and Kubernetes read those of several gateways, and
// Prometheus and Grafana the others.
package deploy

import _ "embed" // the files below

// Unit is a unit of systemd for hookonce serve.
//
//go:embed systemd/hookonce.service
var Unit []byte

// Compose is a compose file for hookonce serve.
//
//go:embed compose/compose.yaml
var Compose []byte
