// Package scale tests several gateways on one PostgreSQL behind a balancer. It has no code.
//
// The gateways are processes of the built program, the database is a real PostgreSQL of package
// dbtest, and the balancer is HAProxy with deploy/haproxy/haproxy.cfg. A sender repeats each failed
// delivery once, as the weakest of providers does, and nearly a third of its deliveries are copies.
// A destination counts what arrives under each webhook-id. Meanwhile gateways are restarted,
// replaced by another build, killed, or told to read changed settings.
//
// With HOOKONCE_SCALE=full (make scale) the scenarios are longer, and figures are measured and
// written into docs/scale.md.
package scale
