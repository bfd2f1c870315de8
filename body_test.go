package hookonce

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestReadAll(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 2047, 2048, 2049, 16 << 10, 1 << 20} {
		want := bytes.Repeat([]byte{'x'}, size)
		for _, declared := range []int64{-1, int64(size), 10 << 30} {
			var used atomic.Int64
			budget := bodyBudget{used: &used, limit: 4 << 20}
			got, err := readAll(iotest.HalfReader(bytes.NewReader(want)), declared, &budget)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("size %d, declared %d: %d bytes, error %v", size, declared, len(got), err)
			}
			if used.Load() < int64(size) {
				t.Errorf("size %d: only %d bytes were budgeted", size, used.Load())
			}
			budget.release()
			if n := used.Load(); n != 0 {
				t.Errorf("size %d: %d bytes are still budgeted after the release", size, n)
			}
		}
	}
}

func TestDeclaredLengthIsNotBelieved(t *testing.T) {
	t.Parallel()
	var used atomic.Int64
	budget := bodyBudget{used: &used, limit: 1 << 20}
	if _, err := readAll(bytes.NewReader([]byte("x")), 1<<30, &budget); err != nil {
		t.Fatal(err)
	}
	if n := used.Load(); n > firstBuffer {
		t.Errorf("%d bytes were set aside for a body of one byte", n)
	}
}

func TestBodyBudget(t *testing.T) {
	t.Parallel()
	var used atomic.Int64
	first := bodyBudget{used: &used, limit: 10_000}
	if _, err := readAll(io.LimitReader(zeros{}, 50_000), -1, &first); err != nil {
		t.Errorf("a body alone must always fit: %v", err)
	}
	second := bodyBudget{used: &used, limit: 10_000}
	if _, err := readAll(bytes.NewReader([]byte("x")), -1, &second); !errors.Is(err, errBodyBudget) {
		t.Errorf("a second body beyond the limit: error %v, want %v", err, errBodyBudget)
	}
	first.release()
	second.release()
	third := bodyBudget{used: &used, limit: 10_000}
	if _, err := readAll(bytes.NewReader([]byte("x")), -1, &third); err != nil {
		t.Errorf("after both were released: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestStoredHeader(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Authorization": {"Bearer canary"},
		"X-Token":       {"canary"},
		"X-Many":        {"a", "b"},
		"X-Latin":       {"caf\xe9"},
		"X-Markup":      {"<b>&"},
	}
	got, err := parseHeader(encodeHeader(visibleHeader(h, []string{"x-token", "authorization"}, "")))
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Authorization": {"<secret>"},
		"X-Token":       {"<secret>"},
		"X-Many":        {"a", "b"},
		"X-Latin":       {"café"},
		"X-Markup":      {"<b>&"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored header (-want +got):\n%s", diff)
	}
	if h.Get("X-Latin") != "caf\xe9" {
		t.Error("the request's own header was changed")
	}
}

// What is stored is what encoding/json would have written.
func TestEncodedHeader(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Header{
		{},
		{"X-One": {"1"}},
		{"X-None": {}, "X-Empty": {""}},
		{"B": {"b"}, "A": {"a", "b", "c"}, "C": {"x"}},
		{"X-Quoted": {`say "yes"`, `a\b`, "<b>&'"}},
		{"X-Control": {"tab\there", "\x00\x1f\x7f", "line\r\n"}},
		{"X-Wide": {"café", "\u2028\u2029", "😀", "bad \xff"}},
		{`X"\é`: {"name"}},
	} {
		want := bytes.TrimSuffix(mustJSON(h), []byte("\n"))
		if diff := cmp.Diff(string(want), string(encodeHeader(h))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", h, diff)
		}
	}
}
