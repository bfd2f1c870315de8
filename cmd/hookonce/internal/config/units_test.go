package config

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"15s": 15 * time.Second, "5m": 5 * time.Minute, "720h": 30 * day, "30d": 30 * day, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour,
		"1h30m": 90 * time.Minute, "0": 0, "0d": 0, "-5m": -5 * time.Minute, "36500d": maxAge, "500ms": 500 * time.Millisecond,
	} {
		if got, ok := parseDuration(text); !ok || got != want {
			t.Errorf("%q = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "5", "d", "1w", "1d-1h", "1d+1h", "-1d", "1e3d", "NaNd", "Infd", "36501d", "9999999h", "1dd", "1 d", "5 m", "1d1d"} {
		if got, ok := parseDuration(text); ok {
			t.Errorf("%q = %v, want none", text, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "1048576": 1 << 20, "1MiB": 1 << 20, "1 MiB": 1 << 20, "512KB": 512_000, "1.5kib": 1536, "2GiB": 2 << 30, "3GB": 3e9, "10b": 10, "1mb": 1e6,
	} {
		if got, ok := parseSize(text); !ok || got != want {
			t.Errorf("%q = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "MiB", "1.5", "-1", "1M", "1e6", "0x10", "1TiB", "9999999999999999999", "1.0001KB", "inf", " 1"} {
		if got, ok := parseSize(text); ok {
			t.Errorf("%q = %v, want none", text, got)
		}
	}
	if got, ok := parseSize("9007199254740992"); ok {
		t.Errorf("2^53 = %v: a size must stay exact (at most %d)", got, math.MaxInt32)
	}
}
