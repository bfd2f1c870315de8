// Package acme holds the gateway's ACME client against Pebble, the authority that Let's Encrypt makes for tests. The gateway
// is a real process, and everything listens on the loopback interface.
//
// It is a Go module of its own, so that nothing of Pebble is a dependency of hookonce.
package acme
