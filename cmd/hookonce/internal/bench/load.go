package bench

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/observe"
)

const (
	signatureHeader = "X-Signature"
	// connections deliver at the same time.
	connections = 64
	// bodySize is the size of a body in bytes, as in docs/performance.md.
	bodySize = 1200
)

// load is the result of sending deliveries.
type load struct {
	took   []time.Duration // of each delivery that was answered 200
	lasted time.Duration
}

// quantiles returns the median and the 99th percentile in seconds.
func (l *load) quantiles() (median, p99 float64) { return quantilesOf(l.took) }

func quantilesOf(took []time.Duration) (median, p99 float64) {
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2].Seconds(), took[len(took)*99/100].Seconds()
}

// serve serves engine, and returns a function that sends deliveries of new events to source for a time.
func serve(ctx context.Context, source string, engine *hookonce.Engine) (deliver func(context.Context, time.Duration) (*load, error), stop func(), err error) {
	base, stopServer, err := listen(ctx, engine)
	if err != nil {
		return nil, nil, err
	}
	client := sample.NewClient(0, connections, nil)
	var n atomic.Int64
	deliver = func(ctx context.Context, lasts time.Duration) (*load, error) {
		return deliverFor(ctx, lasts, func(ctx context.Context) (time.Duration, error) {
			return deliverOne(ctx, client, base+"/webhooks/"+source, n.Add(1))
		})
	}
	return deliver, func() {
		client.CloseIdleConnections()
		stopServer()
		engine.Drain()
	}, nil
}

// deliverFor calls one on all connections until the time is over. It fails with the first error.
func deliverFor(ctx context.Context, lasts time.Duration, one func(context.Context) (time.Duration, error)) (*load, error) {
	began := time.Now()
	var all load
	var mu sync.Mutex
	err := sample.Repeat(ctx, connections, func(ctx context.Context) (bool, error) {
		took, err := one(ctx)
		if err != nil {
			return false, err
		}
		mu.Lock()
		defer mu.Unlock()
		all.took = append(all.took, took)
		return time.Since(began) < lasts, nil
	})
	all.lasted = time.Since(began)
	return &all, err
}

// deliverOne sends the signed delivery of the n-th event, and returns the time until its answer.
func deliverOne(ctx context.Context, client *http.Client, url string, n int64) (time.Duration, error) {
	body := fmt.Appendf(nil, `{"id":"evt_%d","type":"bench","text":"`, n)
	body = append(body, bytes.Repeat([]byte("x"), bodySize-len(body)-2)...)
	body = append(body, `"}`...)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(signatureHeader, hex.EncodeToString(mac.Sum(nil)))
	answer, err := sample.Send(client, r)
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("a delivery was answered %d: %s", answer.Status, answer.Body)
	}
	return answer.Took, err
}

// counter counts attempts with one outcome.
type counter struct {
	kind, outcome string
	n             atomic.Int64
	more          chan struct{}
}

func newCounter(kind, outcome string) *counter {
	return &counter{kind: kind, outcome: outcome, more: make(chan struct{}, 1)}
}

func (c *counter) add(a observe.Attempt) {
	if a.Kind != c.kind || a.Outcome != c.outcome {
		return
	}
	c.n.Add(1)
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// await waits until all are counted, the time is over, or ctx ends.
func (c *counter) await(ctx context.Context, all int, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for c.n.Load() < int64(all) {
		select {
		case <-c.more:
		case <-ctx.Done():
			return
		}
	}
}
