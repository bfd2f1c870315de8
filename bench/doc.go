// Package bench measures hookonce beside what people use today. It has no code.
//
// Every figure is a ratio: what is measured and what it is compared with run in turn,
// several times, in one run on one machine, and the medians are divided. The
// absolute figures of one machine say little about those of another; the ratios last.
//
// Servers are processes of their own: the gateway is the program that users build, and
// the baselines are this test binary started again (receivers_test.go), or the
// programs in the folders below. The load comes from this process (load_test.go), over
// as many connections as the row says, from the same machine.
//
//	make bench
//
// runs all of it, which takes about half an hour, and writes docs/performance.md. As one of the
// usual tests each row is run once, for a moment, so that what is measured works on
// every commit; nothing is asserted about speed.
package bench
