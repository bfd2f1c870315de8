package scale

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/report"
)

const plotFile = "scale-gateways.svg"

// write writes the figures into the documentation.
func (f *figures) write(t testing.TB) {
	t.Helper()
	report.Write(t, filepath.Join(report.Docs(3), "scale.md"), "gateways", "scale", f.text())
	if err := os.WriteFile(filepath.Join(report.Docs(3), plotFile), f.plot(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// text returns the text between the marks of the page.
func (f *figures) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "On %s.\nSenders, gateways and PostgreSQL share these processors; every commit is on the disk.\n\n", report.Machine())
	fmt.Fprintf(&b, "![Processor time of an event by the number of gateways](%s)\n\n", plotFile)
	b.WriteString("| gateways | events a second | 99th percentile | processor time of an event: sender | gateways | PostgreSQL |\n|---|---|---|---|---|---|\n")
	for _, n := range slices.Sorted(maps.Keys(f.receiving)) {
		r := medians(f.receiving[n])
		fmt.Fprintf(&b, "| %d | %.0f | %s ms | %s µs | %s µs | %s µs |\n",
			n, r.perSecond, decimal(r.p99, time.Millisecond), decimal(r.sender, time.Microsecond), decimal(r.gateways, time.Microsecond), decimal(r.postgres, time.Microsecond))
	}
	one := medians(f.receiving[1])
	fmt.Fprintf(&b, "\n(256 connections in all, bodies of 1.1 kB; medians of %d rounds. An event takes %.1f kB in tables and indexes,\n"+
		"and %.1f kB in the write-ahead log.)\n\n", len(f.receiving[1]), one.stored/1000, one.written/1000)
	b.WriteString("| idle gateways | transactions a second | PostgreSQL, a second | connections |\n|---|---|---|---|\n")
	for _, n := range slices.Sorted(maps.Keys(f.idle)) {
		i := f.idle[n]
		fmt.Fprintf(&b, "| %d | %.1f | %s ms | %d |\n", n, i.transactions, decimal(i.processor, time.Millisecond), i.connections)
	}
	b.WriteString("\n| gateways that share a backlog | least of an even share | most | messages a second |\n|---|---|---|---|\n")
	for _, n := range slices.Sorted(maps.Keys(f.shares)) {
		s := f.shares[n]
		fmt.Fprintf(&b, "| %d | %.2f | %.2f | %.0f |\n", n, s.least, s.most, s.perSecond)
	}
	b.WriteString("\n| engine on the same machine | messages a second, from a backlog |\n|---|---|\n")
	for i, perSecond := range f.sent {
		fmt.Fprintf(&b, "| %s | %.0f |\n", engines[i].name, perSecond)
	}
	return b.String()
}

func decimal(d, unit time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(unit)) }

// medians returns the median of each value.
func medians(all []received) received {
	return received{
		perSecond: median(all, func(r received) float64 { return r.perSecond }),
		p99:       median(all, func(r received) time.Duration { return r.p99 }),
		sender:    median(all, func(r received) time.Duration { return r.sender }),
		gateways:  median(all, func(r received) time.Duration { return r.gateways }),
		postgres:  median(all, func(r received) time.Duration { return r.postgres }),
		stored:    median(all, func(r received) float64 { return r.stored }),
		written:   median(all, func(r received) float64 { return r.written }),
	}
}

func median[T float64 | time.Duration](all []received, value func(received) T) T {
	if len(all) == 0 {
		return 0
	}
	var values []T
	for _, r := range all {
		values = append(values, value(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// plot draws a bar for each number of gateways: the processor time of an event in the gateways and in PostgreSQL.
func (f *figures) plot() []byte {
	const width, left, barHeight, rowHeight = 640, 110, 20, 32
	rows := slices.Sorted(maps.Keys(f.receiving))
	var longest time.Duration
	for _, n := range rows {
		r := medians(f.receiving[n])
		longest = max(longest, r.gateways+r.postgres)
	}
	var b bytes.Buffer
	height := rowHeight*len(rows) + 44
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	for i, n := range rows {
		y, x := 10+i*rowHeight, left
		name := fmt.Sprintf("%d gateways", n)
		if n == 1 {
			name = "1 gateway"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`+"\n", left-8, y+barHeight-5, name)
		r := medians(f.receiving[n])
		for _, part := range []struct {
			colour string
			took   time.Duration
		}{{"#1a7f4b", r.gateways}, {"#2b5fa8", r.postgres}} {
			length := int(float64(width-left-20) * float64(part.took) / float64(longest))
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", x, y, length, barHeight, part.colour)
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#ffffff">%s µs</text>`+"\n", x+length/2, y+barHeight-5, decimal(part.took, time.Microsecond))
			x += length
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#1a7f4b">gateways</text>`+"\n", left, height-14)
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#2b5fa8">PostgreSQL</text>`+"\n", left+80, height-14)
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#222222">processor time of an event; shorter is better</text>`+"\n</svg>\n", left+170, height-14)
	return b.Bytes()
}
