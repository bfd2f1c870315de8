package stale

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// maxVersion is the most bytes of an encoded version, see driver.ObjectVersion.
const maxVersion = 255

var errVersionTooLong = errors.New("the version is too long to be compared")

// The kinds of a version part, in their order: numbers, times, other text. A sender keeps to one
// kind. If a sender mixes kinds, this order is still total, whichever two versions are compared.
const (
	versionNumber = 1 + iota
	versionTime
	versionText
)

// encodeVersion returns bytes that compare as the versions do: part by part, numbers as numbers,
// times (RFC 3339) as times, and other text by its bytes. Different spellings of one value have the
// same encoding: 1, 1.0 and "1e0", or a time in two zones. The parts hold no control characters.
func encodeVersion(parts []string) ([]byte, error) {
	var out []byte
	for _, part := range parts {
		number, isNumber, err := parseDecimal(part)
		if err != nil {
			return nil, err
		}
		if isNumber {
			out = number.appendTo(out)
		} else if at, ok := parseVersionTime(part); ok {
			out = at.appendTo(out)
		} else {
			out = append(append(out, versionText), part...)
			out = append(out, 0) // below all that text may go on with
		}
	}
	if len(out) > maxVersion {
		return nil, errVersionTooLong
	}
	return out, nil
}

// decimal is the number 0.digits · 10^exponent.
type decimal struct {
	negative bool
	digits   string // without zeros at either end; "" for the number 0
	exponent int
}

// parseDecimal reads a number as JSON has them; text may also have a plus and
// zeros before it. It is an error if the exponent is out of all bounds.
func parseDecimal(s string) (d decimal, isNumber bool, err error) {
	rest := s
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		d.negative = rest[0] == '-'
		rest = rest[1:]
	}
	whole, rest := cutDigits(rest)
	if whole == "" {
		return decimal{}, false, nil
	}
	var fraction, exponent string
	if strings.HasPrefix(rest, ".") {
		if fraction, rest = cutDigits(rest[1:]); fraction == "" {
			return decimal{}, false, nil
		}
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		sign, digits := "", rest[1:]
		if digits != "" && (digits[0] == '-' || digits[0] == '+') {
			sign, digits = digits[:1], digits[1:]
		}
		if exponent, rest = cutDigits(digits); exponent == "" {
			return decimal{}, false, nil
		}
		exponent = sign + exponent
	}
	if rest != "" {
		return decimal{}, false, nil
	}
	significant := strings.TrimLeft(whole+fraction, "0")
	if d.digits = strings.TrimRight(significant, "0"); d.digits == "" {
		return decimal{}, true, nil
	}
	d.exponent = len(significant) - len(fraction)
	if exponent != "" {
		e, err := strconv.ParseInt(exponent, 10, 31) // leaves room for the digits
		if err != nil {
			return decimal{}, false, errVersionTooLong
		}
		d.exponent += int(e)
	}
	return d, true, nil
}

func cutDigits(s string) (digits, rest string) {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n], s[n:]
}

// appendTo writes the sign, the exponent and the digits; of a negative number all
// of it inverted, because the larger one is the lower.
func (d decimal) appendTo(out []byte) []byte {
	const positive, zero = 0xC0, 0x80 // and the inverse of positive
	out = append(out, versionNumber)
	if d.digits == "" {
		return append(out, zero)
	}
	start := len(out)
	out = append(out, positive)
	out = binary.BigEndian.AppendUint32(out, uint32(d.exponent)^1<<31)
	out = append(out, d.digits...)
	out = append(out, 0)
	if d.negative {
		for i := start; i < len(out); i++ {
			out[i] = ^out[i]
		}
	}
	return out
}

// versionInstant is a time, without limit to its fraction of a second.
type versionInstant struct {
	seconds  int64  // since 1970
	fraction string // digits behind the point, without zeros at their end
}

// parseVersionTime reads an RFC 3339 time. A leap second counts as the second that
// follows it: as text it would be higher than every time to come.
func parseVersionTime(s string) (v versionInstant, ok bool) {
	const secondsAt, fractionAt = len("2006-01-02T15:04:"), len("2006-01-02T15:04:05")
	leap := len(s) > fractionAt && s[secondsAt:fractionAt] == "60"
	if leap {
		s = s[:secondsAt] + "59" + s[fractionAt:]
	}
	t, ok := locate.ParseRFC3339(s)
	if !ok {
		return versionInstant{}, false
	}
	v.seconds = t.Unix()
	if leap {
		v.seconds++
	}
	if fraction, found := strings.CutPrefix(s[fractionAt:], "."); found {
		digits, _ := cutDigits(fraction)
		v.fraction = strings.TrimRight(digits, "0")
	}
	return v, true
}

func (v versionInstant) appendTo(out []byte) []byte {
	out = append(out, versionTime)
	out = binary.BigEndian.AppendUint64(out, uint64(v.seconds)^1<<63)
	out = append(out, v.fraction...)
	return append(out, 0)
}
