// Package bench measures hookonce beside the usual alternatives. It contains tests only.
//
// Every figure is a ratio. The two contestants run in turn, several times, in one run on one
// machine, and their medians are divided. Absolute figures depend on the machine; the ratios last.
//
// Servers are processes of their own: the gateway is the program that users build. The baselines
// are this test binary started again (receivers_test.go), or the programs in the folders below.
// This process sends the load (load_test.go) from the same machine, over as many connections as the
// row says.
//
//	make bench
//
// runs all of it, takes about an hour, and writes docs/performance.md, which shows the alternatives, and
// bench/targets.md, which shows every row beside its target. With -run, only some rows are measured
// and written:
//
//	HOOKONCE_BENCH=full go test -count=1 -timeout 1h -v -run 'TestPerformance/memory' ./bench
//
// The usual tests run each row once, for a moment, so that every commit shows that the measurements
// work; they assert nothing about speed.
package bench
