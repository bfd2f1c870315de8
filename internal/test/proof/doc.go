// Package proof holds the proof that effects happen exactly once. It has no code.
//
// A trial (trial_test.go) is a run of thousands of events through real worker
// processes: the test binary starts itself again as programs such as a user would
// write, with a Mux, an Inbox, a listener and a database. The events are delivered
// at least once, some of them twice, half of those at the same moment. What the
// handler of an event does stands in its body: most succeed, some fail twice, some
// always panic, fail for good, or end their process. Meanwhile the processes are
// killed, again and again, and started anew.
//
// In the end what the database holds is compared with what was sent: of every event
// that can succeed the effect is there once, and the table of effects has no unique
// constraint that could have helped; of every other one there is none, and it is dead
// with its error. Nothing is left over, and every message of the outbox was sent
// under one id.
//
// A trial in which nothing went wrong would prove nothing. So each fault leaves a
// trace: workers and consumers append a line to a file before they do something
// that the database may forget. The figures of a trial are logged, and a trial in
// which a fault did not happen fails as void.
//
// A worker that is stopped past every time-out (stopped_test.go) holds a transaction
// that is all but committed, and must change nothing when it continues.
//
// The random choices follow from a seed that the test logs; the environment variable
// HOOKONCE_TEST_SEED repeats them. HOOKONCE_SOAK sets the number of events.
package proof
