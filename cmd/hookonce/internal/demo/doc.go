// Package demo is the command demo: the promise of hookonce, kept in front of the user's eyes in half
// a minute, without settings and without a network.
//
// It starts three processes of this program: a gateway, a small bank behind it, and a receiver that
// checks and then acts, as many first attempts do. It plays the same traffic to the gateway and to that
// receiver, kills both at the same moments of the traffic, and compares the ledgers at the end.
//
// Everything lies in a temporary folder, and on PostgreSQL in a temporary database. Both are gone when
// Run returns.
package demo
