package hookonce

import (
	"errors"
	"io"
	"sync/atomic"
)

var errBodyBudget = errors.New("the memory for bodies is used up")

// bodyBudget is one request's part in the memory that all bodies share: many
// large bodies at once, which nobody has verified yet, must not end the
// process.
type bodyBudget struct {
	used  *atomic.Int64 // by all requests
	limit int64
	own   int64
}

// take asks for n more bytes.
func (b *bodyBudget) take(n int) error {
	b.own += int64(n)
	// The first body always fits, or it could never be received.
	if used := b.used.Add(int64(n)); used > b.limit && used > b.own {
		return errBodyBudget
	}
	return nil
}

// release gives everything back.
func (b *bodyBudget) release() { b.used.Add(-b.own) }

// firstBuffer is what a body gets before its first byte: enough for most.
const firstBuffer = 2 << 10

// readAll reads r to its end. A declared length, or -1, is not believed: a large
// buffer comes only with the bytes that fill it.
func readAll(r io.Reader, declared int64, budget *bodyBudget) ([]byte, error) {
	size := int64(firstBuffer)
	if declared >= 0 {
		size = min(declared+1, size) // one more, so that the last read finds the end
	}
	buf := make([]byte, 0, size)
	if err := budget.take(cap(buf)); err != nil {
		return nil, err
	}
	for {
		if len(buf) == cap(buf) {
			before := cap(buf)
			buf = append(buf, 0)[:len(buf)]
			if err := budget.take(cap(buf) - before); err != nil {
				return nil, err
			}
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
