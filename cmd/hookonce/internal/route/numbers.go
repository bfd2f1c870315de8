package route

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

func isNumber(v any) bool {
	switch v.(type) {
	case int, wholeNumber, float64:
		return true
	}
	return false
}

// compareNumbers compares without rounding; ok is false if one is NaN.
func compareNumbers(a, b any) (c int, ok bool) {
	if x, isInt := a.(int); isInt {
		if y, isInt := b.(int); isInt {
			return cmp.Compare(x, y), true
		}
	}
	x, ok := exact(a)
	y, ok2 := exact(b)
	if !ok || !ok2 {
		return 0, false
	}
	return x.Cmp(y), true
}

// exactBits is enough precision for a whole number of maxDigits digits.
const exactBits = 192

// exact returns the value of a number; ok is false for NaN.
func exact(v any) (f *big.Float, ok bool) {
	f = new(big.Float).SetPrec(exactBits)
	switch v := v.(type) {
	case int:
		return f.SetInt64(int64(v)), true
	case wholeNumber:
		_, ok := f.SetString(string(v))
		return f, ok
	case float64:
		if math.IsNaN(v) {
			return nil, false
		}
		return f.SetFloat64(v), true
	}
	return nil, false
}

func asFloat(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	f, ok := exact(v)
	if !ok {
		return math.NaN()
	}
	out, _ := f.Float64()
	return out
}

// arithmetic computes a op b for numbers, times and durations. It does not join texts: see the
// bounds in the package comment.
func arithmetic(op rune, a, b any) (any, error) {
	if isNumber(a) && isNumber(b) {
		x, isInt := a.(int)
		y, isInt2 := b.(int)
		if isInt && isInt2 && op != '/' {
			return onInts(op, x, y)
		}
		return onFloats(op, asFloat(a), asFloat(b))
	}
	if at, ok := a.(time.Time); ok {
		switch y := b.(type) {
		case time.Duration:
			if op == '+' {
				return at.Add(y), nil
			} else if op == '-' {
				return at.Add(-y), nil
			}
		case time.Time:
			if op == '-' {
				return at.Sub(y), nil
			}
		}
	}
	return nil, failf("%s %c %s is not possible", kindOf(a), op, kindOf(b))
}

func onInts(op rune, x, y int) (any, error) {
	switch op {
	case '+':
		if sum := x + y; (sum > x) == (y > 0) {
			return sum, nil
		}
	case '-':
		if diff := x - y; (diff < x) == (y > 0) {
			return diff, nil
		}
	case '*':
		if x == 0 || y == 0 {
			return 0, nil
		}
		if p := x * y; p/y == x && !(x == -1 && y == math.MinInt) && !(y == -1 && x == math.MinInt) {
			return p, nil
		}
	case '%':
		if y == 0 {
			return nil, failf("the remainder of a division by zero does not exist")
		}
		return x % y, nil
	}
	return onFloats(op, float64(x), float64(y))
}

func onFloats(op rune, x, y float64) (any, error) {
	switch op {
	case '+':
		return x + y, nil
	case '-':
		return x - y, nil
	case '*':
		return x * y, nil
	case '/':
		if y == 0 {
			return nil, failf("division by zero")
		}
		return x / y, nil
	}
	return nil, failf("%% needs whole numbers of at most 64 bits")
}

func toInt(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int, wholeNumber:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.Abs(v) >= 1<<63 {
			return nil, failf("int needs a number of at most 64 bits")
		}
		return int(v), nil
	case string:
		if text := strings.TrimSpace(v); isWhole(text) {
			return convertNumber(text), nil
		}
		return nil, failf("int needs a number, but has a text that is not one")
	}
	return nil, failf("int needs a number or a text, but has %s", kindOf(v))
}

// isWhole reports whether s is a whole number that can be kept exactly.
func isWhole(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && len(digits) < maxDigits && strings.Trim(digits, "0123456789") == ""
}

func toFloat(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if isNumber(v) {
		return asFloat(v), nil
	}
	text, ok := v.(string)
	if !ok {
		return nil, failf("float needs a number or a text, but has %s", kindOf(v))
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return nil, failf("float needs a number, but has a text that is not one")
	}
	return f, nil
}
