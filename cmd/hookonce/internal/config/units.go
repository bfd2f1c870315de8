package config

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/say"
)

const day = 24 * time.Hour

// maxAge bounds every retention: longer than any law asks for, and far below the overflow of
// time.Duration.
const maxAge = 36_500 * day

// parseDuration parses a Go duration that may begin with days, such as 30d or 1d12h.
func parseDuration(s string) (time.Duration, bool) {
	var d time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || strings.Trim(days, "0123456789.") != "" || n > float64(maxAge/day) {
			return 0, false
		}
		if d = time.Duration(n * float64(day)); rest == "" {
			return d, true
		}
		if s = rest; strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
			return 0, false
		}
	}
	more, err := time.ParseDuration(s)
	if err != nil || more.Abs() > maxAge {
		return 0, false
	}
	return d + more, true
}

// duration reads a duration from least to most; 0 if it is absent. A least of 1 means more than 0.
func (l *loader) duration(n *node, least, most time.Duration) time.Duration {
	text, ok := l.text(n)
	if !ok {
		return 0
	}
	d, ok := parseDuration(text)
	switch {
	case !ok:
		l.fault(n, "%s is not a duration; write it as 15s, 5m, 12h or 30d", n.shown())
		return 0
	case (d < least || d > most) && least == 1:
		l.fault(n, "%s must be more than 0 and at most %s", n.shown(), say.Setting(most))
		return 0
	case d < least || d > most:
		l.fault(n, "%s must be from %s to %s", n.shown(), say.Setting(least), say.Setting(most))
		return 0
	}
	return d
}

var sizeUnits = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"b", 1},
	{"", 1},
}

func parseSize(s string) (int64, bool) {
	s = strings.ToLower(s)
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(s, unit.suffix)
		if !ok {
			continue
		}
		digits = strings.TrimRight(digits, " ")
		n, err := strconv.ParseFloat(digits, 64)
		bytes := n * unit.bytes
		if err != nil || strings.Trim(digits, "0123456789.") != "" || bytes >= 1<<53 || bytes != math.Trunc(bytes) {
			return 0, false
		}
		return int64(bytes), true
	}
	return 0, false
}

// size reads a number of bytes from 1 to most; 0 if it is absent.
func (l *loader) size(n *node, most int64) int64 {
	text, ok := l.text(n)
	if !ok {
		return 0
	}
	v, ok := parseSize(text)
	if !ok {
		l.fault(n, "%s is not a size; write it as 1MiB, 512KB or a number of bytes", n.shown())
		return 0
	}
	if v < 1 || v > most {
		l.fault(n, "%s must be from 1 to %d bytes", n.shown(), most)
		return 0
	}
	return v
}

// rate reads a rate; the zero Rate if it is absent.
func (l *loader) rate(n *node) hookonce.Rate {
	text, ok := l.text(n)
	if !ok {
		return hookonce.Rate{}
	}
	rate, err := limit.ParseRate(text)
	if err != nil {
		l.fault(n, "%s %s", n.shown(), err)
	}
	return hookonce.Rate(rate)
}

// networks reads a list of networks, or one text with commas, as in a variable. An address is a
// network of its own.
func (l *loader) networks(n *node) (out []netip.Prefix) {
	items := []*node{n}
	if n == nil || n.kind != kindText {
		items = l.list(n)
	}
	for _, item := range items {
		text, ok := l.text(item)
		if !ok {
			continue
		}
		for one := range strings.SplitSeq(text, ",") {
			one = strings.TrimSpace(one)
			prefix, err := netip.ParsePrefix(one)
			if addr, addrErr := netip.ParseAddr(one); addrErr == nil && addr.Zone() == "" {
				prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
			}
			if err != nil {
				l.fault(item, "%s is not a network; write it as 10.0.0.0/8, 2001:db8::/32, or one address", item.shown())
				continue
			}
			l.places[fmt.Sprintf("trusted_proxies[%d]", len(out))] = item
			out = append(out, prefix)
		}
	}
	return out
}
