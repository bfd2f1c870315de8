package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/report"
)

// idleGateway measures the load of a gateway without any work, and that on its database.
func idleGateway(t *testing.T, s *scale) *comparison {
	const destinations = 50
	server := newServer(t)
	var settings strings.Builder
	settings.WriteString("destinations:\n")
	for i := range destinations {
		fmt.Fprintf(&settings, "  d%d: {url: \"http://127.0.0.1:9/hooks\", secret: \"a-secret-of-the-destination\"}\n", i)
	}
	gateway := startGateway(t, gatewaySettings(server.DSN(), settings.String()))
	spent := func(pids func(testing.TB) []int) func(testing.TB) float64 {
		return func(t testing.TB) float64 {
			<-time.After(s.warm)
			before, began := report.ProcessorTime(t, pids(t)...), time.Now()
			<-time.After(s.lasts)
			return milliseconds(report.ProcessorTime(t, pids(t)...)-before) / time.Since(began).Seconds()
		}
	}
	what := fmt.Sprintf("an idle gateway with %d destinations", destinations)
	return &comparison{
		unit: "ms/s",
		contestants: []contestant{
			{"PostgreSQL", spent(server.PIDs)},
			{"gateway", spent(func(testing.TB) []int { return []int{gateway.Cmd.Process.Pid} })},
			{"memory", func(t testing.TB) float64 { return float64(gateway.peakMemory(t)) / 1e6 }},
		},
		rows: []row{
			{what: "processor time of PostgreSQL beside " + what, subject: "PostgreSQL", want: 10, atMost: true},
			{what: "processor time of " + what, subject: "gateway", want: 5, atMost: true},
			{what: "memory of " + what, subject: "memory", want: 40, atMost: true, unit: "MB"},
		},
	}
}

// forwardLive measures the processor time of a message that is sent as soon as its event arrives.
func forwardLive(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	const rate = 2000
	perEvent := func(t testing.TB, more string, sent func(int) bool) float64 {
		return onNewDatabase(t, server, func(t testing.TB, dsn string) float64 {
			gateway := startGateway(t, gatewaySettings(dsn, more))
			defer gateway.Stop(t)
			spent := func() time.Duration {
				return report.ProcessorTime(t, append(server.PIDs(t), gateway.Cmd.Process.Pid)...)
			}
			before := spent()
			l := load{address: gateway.address, request: newEvents(), connections: forwardConcurrency, lasts: s.lasts, rate: rate}
			n := l.run(t).answers
			gateway.Eventually(t, "all messages are sent", func() bool { return sent(n) })
			return float64((spent() - before).Microseconds()) / float64(n)
		})
	}
	return &comparison{
		unit: "µs",
		contestants: []contestant{{"hookonce", func(t testing.TB) float64 {
			to := newSink(t, 0)
			with := perEvent(t, to.destination("")+sinkRoute, func(n int) bool { return to.got.Load() == int64(n) })
			return with - perEvent(t, "", func(int) bool { return true })
		}}},
		rows: []row{{
			what:    fmt.Sprintf("processor time of gateway and PostgreSQL to send a message as its event arrives, at %s a second", thousands(rate)),
			subject: "hookonce", want: 100, atMost: true,
		}},
	}
}
