package wire

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestReadAll(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 2047, 2048, 2049, 16 << 10, 1 << 20} {
		want := bytes.Repeat([]byte{'x'}, size)
		for _, declared := range []int64{-1, int64(size), 10 << 30} {
			memory := NewMemory(4 << 20)
			budget := memory.Budget("lab")
			got, err := ReadAll(iotest.HalfReader(bytes.NewReader(want)), declared, budget)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("size %d, declared %d: %d bytes, error %v", size, declared, len(got), err)
			}
			if memory.Used() < int64(size) {
				t.Errorf("size %d: only %d bytes were budgeted", size, memory.Used())
			}
			budget.Release()
			if n := memory.Used(); n != 0 {
				t.Errorf("size %d: %d bytes are still budgeted after the release", size, n)
			}
		}
	}
}

func TestDeclaredLengthIsNotBelieved(t *testing.T) {
	t.Parallel()
	memory := NewMemory(1 << 20)
	budget := memory.Budget("lab")
	if _, err := ReadAll(bytes.NewReader([]byte("x")), 1<<30, budget); err != nil {
		t.Fatal(err)
	}
	if n := memory.Used(); n > firstBuffer {
		t.Errorf("%d bytes were set aside for a body of one byte", n)
	}
}

func TestBodyBudget(t *testing.T) {
	t.Parallel()
	memory := NewMemory(10_000)
	first := memory.Budget("lab")
	if _, err := ReadAll(io.LimitReader(zeros{}, 50_000), -1, first); err != nil {
		t.Errorf("a body alone must always fit: %v", err)
	}
	second := memory.Budget("lab")
	if _, err := ReadAll(bytes.NewReader([]byte("x")), -1, second); !errors.Is(err, ErrBudget) {
		t.Errorf("a second body beyond the limit: error %v, want %v", err, ErrBudget)
	}
	first.Release()
	second.Release()
	third := memory.Budget("lab")
	if _, err := ReadAll(bytes.NewReader([]byte("x")), -1, third); err != nil {
		t.Errorf("after both were released: %v", err)
	}
}

// A flood of one source leaves room for the bodies of other sources, and their floods for others.
func TestBodyBudgetIsShared(t *testing.T) {
	t.Parallel()
	memory := NewMemory(1 << 20)
	flood := func(source string) (bodies int) {
		for {
			if _, err := ReadAll(io.LimitReader(zeros{}, 2<<10), 2<<10, memory.Budget(source)); err != nil {
				return bodies
			}
			bodies++
		}
	}
	before := memory.limit
	for _, source := range []string{"a", "b", "c"} {
		if n := flood(source); n == 0 {
			t.Errorf("source %s got no memory beside the floods before it", source)
		}
		free := memory.limit - memory.Used()
		if free < before/5 {
			t.Errorf("the flood of %s leaves %d of %d free bytes, want about a quarter", source, free, before)
		}
		before = free
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Rules and handlers read the inflated body.
func TestStored(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	if _, err := zw.Write([]byte("body")); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		headers string
		body    []byte
		fails   bool
	}{
		"gzip":     {`{"Content-Encoding":["gzip"]}`, zipped.Bytes(), false},
		"plain":    {`{}`, []byte("body"), false},
		"empty":    {``, []byte("body"), false},
		"not gzip": {`{"Content-Encoding":["gzip"]}`, []byte("body"), true},
		"not JSON": {`{`, []byte("body"), true},
	} {
		_, body, err := Stored([]byte(tt.headers), tt.body)
		if string(body) != "body" || (err != nil) != tt.fails {
			t.Errorf("%s: body %q, error %v", name, body, err)
		}
	}
}

// One repeated field compresses far better than 100:1, and is no bomb while it is small.
func TestGunzipAllowsAnyRatioOfASmallBody(t *testing.T) {
	for _, tt := range []struct {
		size, limit int64
		want        error
	}{
		{300 << 10, 1 << 20, nil},
		{1<<20 + 1, 1 << 20, ErrTooLarge},
		{8 << 20, 64 << 20, nil},
		{8<<20 + 1, 64 << 20, ErrTooLarge}, // compressed to a thousandth
	} {
		var zipped bytes.Buffer
		zw := gzip.NewWriter(&zipped)
		if _, err := zw.Write(make([]byte, tt.size)); err != nil {
			t.Fatal(err)
		}
		if err := zw.Close(); err != nil {
			t.Fatal(err)
		}
		body, err := Gunzip(zipped.Bytes(), tt.limit, NewMemory(64<<20).Budget(""))
		if !errors.Is(err, tt.want) || err == nil && int64(len(body)) != tt.size {
			t.Errorf("%d bytes in %d, limit %d: got %d bytes and the error %v, want %v", tt.size, zipped.Len(), tt.limit, len(body), err, tt.want)
		}
	}
}
