// Package wire reads bodies within a memory limit, and converts headers, bodies and error texts to
// the stored form and back.
package wire

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
)

// Errors of ReadAll and Gunzip.
var (
	ErrBudget   = errors.New("the memory for bodies is used up")
	ErrTooLarge = errors.New("the body is too large once inflated")
)

// Memory is the memory that all bodies use together. Its limit keeps many large unverified bodies
// from ending the process. A source may use at most three times the bytes that it leaves free, so
// that a flood of one source never uses all of it. A Memory is safe for concurrent use.
type Memory struct {
	limit int64

	mu       sync.Mutex
	used     int64
	bySource map[string]*int64 // in use; without the sources that use none
}

// NewMemory returns an unused memory of limit bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit, bySource: make(map[string]*int64)} }

// Used returns the bytes that are in use.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Budget returns the empty share of one request to source.
func (m *Memory) Budget(source string) *Budget { return &Budget{memory: m, source: source} }

// Budget is one request's share of a Memory. A Budget is for one goroutine.
type Budget struct {
	memory *Memory
	source string
	own    int64
	used   *int64 // by the source; nil while own is 0
}

// take asks for n more bytes, at least one. It counts them even if it refuses them.
func (b *Budget) take(n int) error {
	m := b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.used == nil {
		if b.used = m.bySource[b.source]; b.used == nil {
			b.used = new(int64)
			m.bySource[b.source] = b.used
		}
	}
	b.own += int64(n)
	m.used += int64(n)
	*b.used += int64(n)
	switch {
	case m.used == b.own: // a body alone always fits: otherwise a large one could never be received
		return nil
	case m.used > m.limit, *b.used/3 > m.limit-m.used:
		return ErrBudget
	}
	return nil
}

// Release returns the share's bytes.
func (b *Budget) Release() {
	if b.used == nil {
		return
	}
	m := b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= b.own
	if *b.used -= b.own; *b.used == 0 {
		delete(m.bySource, b.source)
	}
	b.own, b.used = 0, nil
}

// firstBuffer is the size of a body's first buffer: enough for most bodies.
const firstBuffer = 2 << 10

// ReadAll reads r to its end. It does not trust the declared length (-1 if unknown): the buffer
// grows only with the bytes that arrive. The error is ErrBudget when the budget is used up.
func ReadAll(r io.Reader, declared int64, budget *Budget) ([]byte, error) {
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

// A body that inflates to more than maxInflateRatio times its compressed size is a decompression bomb, unless it is
// small: a document that repeats a field a thousand times is none.
const (
	maxInflateRatio = 100
	anyRatio        = 8 << 20
)

// Encoding returns the coding of a body, "" for none. Empty elements of the list and identity are none
// (RFC 9110, sections 5.6.1 and 8.4.1), x-gzip is gzip. Several codings are returned as they are.
func Encoding(h http.Header) string {
	list, coding := h.Get("Content-Encoding"), ""
	for element := range strings.SplitSeq(list, ",") {
		switch name := strings.ToLower(strings.Trim(element, " \t")); {
		case name == "" || name == "identity":
		case coding != "":
			return list
		default:
			coding = strings.TrimPrefix(name, "x-")
		}
	}
	return coding
}

// IsGzip reports whether h declares a gzip-compressed body.
func IsGzip(h http.Header) bool { return Encoding(h) == "gzip" }

// Gunzip inflates a body. The error is ErrTooLarge where the result exceeds limit, in bytes, or
// both 8 MiB and 100 times the compressed size; ErrBudget when the budget is used up.
func Gunzip(compressed []byte, limit int64, budget *Budget) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("the body is not gzip: %w", err)
	}
	limit = min(limit, max(int64(len(compressed))*maxInflateRatio, anyRatio))
	body, err := ReadAll(io.LimitReader(zr, limit+1), -1, budget)
	switch {
	case errors.Is(err, ErrBudget):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the body is not gzip: %w", err)
	case int64(len(body)) > limit:
		return nil, ErrTooLarge
	}
	return body, nil
}

// Stored returns the headers of a stored event or message, and its body inflated. On an error it
// returns the headers as far as they can be read, and the body as stored.
func Stored(headers, body []byte) (http.Header, []byte, error) {
	header, err := ParseHeader(headers)
	if err != nil || !IsGzip(header) {
		return header, body, err
	}
	inflated, err := Gunzip(body, math.MaxInt64, NewMemory(math.MaxInt64).Budget(""))
	if err != nil {
		return header, body, err
	}
	return header, inflated, nil
}
