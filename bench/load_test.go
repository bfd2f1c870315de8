package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// load is a stream of deliveries to one address.
type load struct {
	address string
	// request appends the n-th request, complete, to a buffer.
	request     func(to []byte, n int64) []byte
	connections int
	// lasts is the time during which new requests begin. It is extended until each connection has
	// had an answer.
	lasts time.Duration
	// warm is a time before lasts. Requests are sent then, but not counted.
	warm time.Duration
	// rate is the number of requests offered in a second, independent of the answers. 0 sends the
	// next request as soon as the last one is answered.
	rate int
}

// measured is the result of a load.
type measured struct {
	answers   int // answers with 2xx, within the counted time
	seconds   float64
	latencies []time.Duration // sorted; under a rate, measured from the time each request was due
}

func (m *measured) perSecond() float64 { return float64(m.answers) / m.seconds }

// quantile returns the latency that the share q of the requests did not exceed.
func (m *measured) quantile(q float64) time.Duration {
	return m.latencies[min(len(m.latencies)-1, int(q*float64(len(m.latencies))))]
}

// run sends the load. An answer other than 2xx, or a missing answer, fails the test: the figure
// would measure something else.
func (l *load) run(t testing.TB) *measured {
	t.Helper()
	syscall.Sync() // earlier writes must not delay the commits of this load
	began := time.Now()
	counts, ends := began.Add(l.warm), began.Add(l.warm+l.lasts)
	var next atomic.Int64
	next.Store(firstOf(t))
	first := next.Load()
	all := make([]connection, l.connections)
	var wg sync.WaitGroup
	for i := range all {
		c := &all[i]
		c.load, c.next, c.first, c.began, c.counts, c.ends = l, &next, first, began, counts, ends
		wg.Go(func() { c.err = c.run() })
	}
	wg.Wait()
	m := &measured{seconds: l.lasts.Seconds()}
	for i := range all {
		if err := all[i].err; err != nil {
			t.Fatalf("sending to %s: %v", l.address, err)
		}
		m.latencies = append(m.latencies, all[i].latencies...)
	}
	slices.Sort(m.latencies)
	m.answers = len(m.latencies)
	return m
}

// used counts the ranges of request numbers that this process has handed out.
var used atomic.Int64

// firstOf returns the start of a range of request numbers that no other load uses.
func firstOf(t testing.TB) int64 {
	t.Helper()
	return used.Add(1) << 32
}

// connection is one sender of a load.
type connection struct {
	load                *load
	next                *atomic.Int64
	first               int64
	began, counts, ends time.Time
	latencies           []time.Duration
	err                 error
}

func (c *connection) run() error {
	conn, err := net.Dial("tcp", c.load.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReaderSize(conn, 4096)
	var buf []byte
	for {
		n := c.next.Add(1) - 1
		begin := time.Now()
		if c.load.rate > 0 {
			due := c.began.Add(time.Duration(n-c.first) * time.Second / time.Duration(c.load.rate))
			if wait := due.Sub(begin); wait > 0 {
				<-time.After(wait)
			}
			begin = due
		}
		// On a busy machine a brief load may end before the first counted answer.
		answered := len(c.latencies) > 0
		if answered && !begin.Before(c.ends) {
			return nil
		}
		buf = c.load.request(buf[:0], n)
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		status, err := readAnswer(answers)
		if err != nil {
			return err
		}
		if status/100 != 2 {
			return fmt.Errorf("answered %d", status)
		}
		// Under a rate, all due requests count: the late ones are the slowest, and leaving them out
		// would flatter the figure.
		now := time.Now()
		inTime := c.load.rate > 0 || !answered || now.Before(c.ends.Add(time.Second))
		if inTime && !begin.Before(c.counts) {
			c.latencies = append(c.latencies, now.Sub(begin))
		}
	}
}

var errAnswer = errors.New("the answer cannot be read")

// readAnswer reads one answer with a Content-Length and returns its status.
func readAnswer(r *bufio.Reader) (status int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 {
		return 0, errAnswer
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, errAnswer
	}
	length := -1
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, errAnswer
			}
		}
	}
	if length < 0 {
		return 0, errAnswer
	}
	_, err = io.CopyN(io.Discard, r, int64(length))
	return status, err
}
