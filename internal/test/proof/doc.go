// Package proof holds the proof that effects happen exactly once. It has no code.
//
// A trial (trial_test.go) is a run of many events through real worker processes: the test
// binary starts itself again as a program like a user's, with a Mux, an Inbox, a listener and a
// database. The events are delivered at least once, some of them twice, half of those at the same
// moment. The body of an event tells its handler what to do: most succeed, some fail twice, some
// always panic, fail for good, or end their process. Meanwhile the processes are killed again and
// again, and new ones started.
//
// In the end the test compares the database with the deliveries. Each event that can succeed has
// one effect, and the table of effects has no unique constraint that could have helped. Every other
// event has none, and is dead with its error. Nothing is left over, and every message of the outbox
// was sent under one id.
//
// A trial without faults would prove nothing. So each fault leaves a trace: workers and consumers
// append a line to a file before a step that the database may forget. The trial logs its figures,
// and fails as void if a fault did not happen.
//
// A worker that is stopped past every timeout (stopped_test.go) holds a transaction that is ready
// to commit, and must change nothing when it continues.
//
// The random choices follow from a seed that the test logs; the environment variable
// HOOKONCE_TEST_SEED repeats them. A trial has 400 events, and 100,000 in a long run (see package group).
package proof
