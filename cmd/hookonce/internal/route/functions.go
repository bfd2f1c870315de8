package route

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr"
)

// functions returns the options that define the functions of the vocabulary. Names in parentheses
// stand for operators.
func functions() []expr.Option {
	unary := map[string]func(any) (any, error){
		"len":      length,
		"lower":    onText("lower", strings.ToLower),
		"upper":    onText("upper", strings.ToUpper),
		"trim":     onText("trim", strings.TrimSpace),
		"string":   toText,
		"int":      toInt,
		"float":    toFloat,
		"abs":      absolute,
		"date":     toTime,
		"duration": toDuration,
		"(list)":   func(v any) (any, error) { return toList(v) },
		"(truth)":  func(v any) (any, error) { return truth(v) },
		"(step)":   func(v any) (any, error) { return v, nil },
	}
	binary := map[string]func(a, b any) (any, error){
		"(field)":      field,
		"(<)":          ordered(func(c int) bool { return c < 0 }),
		"(<=)":         ordered(func(c int) bool { return c <= 0 }),
		"(>)":          ordered(func(c int) bool { return c > 0 }),
		"(>=)":         ordered(func(c int) bool { return c >= 0 }),
		"(contains)":   betweenTexts("contains", strings.Contains),
		"(startsWith)": betweenTexts("startsWith", strings.HasPrefix),
		"(endsWith)":   betweenTexts("endsWith", strings.HasSuffix),
	}
	for _, op := range "+-*/%" {
		binary["("+string(op)+")"] = func(a, b any) (any, error) { return arithmetic(op, a, b) }
	}
	searching := map[string]func(b *budget, x, y any) (any, error){
		"(==)":      func(b *budget, x, y any) (any, error) { return b.equal(x, y) },
		"(in)":      contained,
		"(matches)": matches,
	}
	var options []expr.Option
	define := func(name string, fn func(b *budget, p []any) (any, error), signature any) {
		options = append(options, expr.Function(name, func(p ...any) (any, error) {
			b := p[0].(*budget)
			if err := b.chargeCall(p[1:]); err != nil {
				return nil, err
			}
			return fn(b, p[1:])
		}, signature))
	}
	for name, fn := range unary {
		if !strings.HasPrefix(name, "(") {
			// The author's name, for the type check. lenient replaces it by the one in parentheses.
			options = append(options, expr.Function(name, func(p ...any) (any, error) { return fn(p[0]) }, new(func(any) any)))
			name = "(" + name + ")"
		}
		define(name, func(_ *budget, p []any) (any, error) { return fn(p[0]) }, new(func(*budget, any) any))
	}
	for name, fn := range binary {
		define(name, func(_ *budget, p []any) (any, error) { return fn(p[0], p[1]) }, new(func(b *budget, x, y any) any))
	}
	for name, fn := range searching {
		define(name, func(b *budget, p []any) (any, error) { return fn(b, p[0], p[1]) }, new(func(b *budget, x, y any) any))
	}
	return options
}

func failf(format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...)}
}

// kindOf names the type of v in the words of the settings.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case int, wholeNumber, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case time.Time:
		return "a time"
	case time.Duration:
		return "a duration"
	}
	return "something else"
}

func truth(v any) (bool, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	}
	return false, failf("this must be true or false, but is %s", kindOf(v))
}

func toList(v any) ([]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	}
	// The result of map is a slice of the condition's type.
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		out := make([]any, list.Len())
		for i := range out {
			out[i] = list.Index(i).Interface()
		}
		return out, nil
	}
	return nil, failf("this must be a list, but is %s", kindOf(v))
}

// field returns from[key], or nil if it does not exist. A negative index counts from the end.
func field(from, key any) (any, error) {
	switch from := from.(type) {
	case map[string]any:
		if name, ok := key.(string); ok {
			return from[name], nil
		}
	case []any:
		i, ok := key.(int)
		if ok && i < 0 {
			i += len(from)
		}
		if ok && i >= 0 && i < len(from) {
			return from[i], nil
		}
	}
	return nil, nil
}

// equal compares values of JSON deeply, and is charged for each part.
func (b *budget) equal(x, y any) (bool, error) {
	if err := b.chargeCall([]any{x}); err != nil {
		return false, err
	}
	if isNumber(x) && isNumber(y) {
		c, ok := compareNumbers(x, y)
		return ok && c == 0, nil
	}
	switch x := x.(type) {
	case time.Time:
		y, ok := y.(time.Time)
		return ok && x.Equal(y), nil
	case []any:
		y, ok := y.([]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if same, err := b.equal(x[i], y[i]); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for name := range x {
			other, there := y[name]
			if !there {
				return false, nil
			}
			if same, err := b.equal(x[name], other); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return reflect.DeepEqual(x, y), nil
}

func ordered(holds func(int) bool) func(a, b any) (any, error) {
	return func(a, b any) (any, error) {
		if a == nil || b == nil {
			return false, nil
		}
		c, ok, err := compare(a, b)
		return ok && holds(c), err
	}
}

func compare(a, b any) (c int, ok bool, err error) {
	if isNumber(a) && isNumber(b) {
		c, ok = compareNumbers(a, b)
		return c, ok, nil
	}
	switch x := a.(type) {
	case string:
		if y, same := b.(string); same {
			return strings.Compare(x, y), true, nil
		}
	case time.Time:
		if y, same := b.(time.Time); same {
			return x.Compare(y), true, nil
		}
	case time.Duration:
		if y, same := b.(time.Duration); same {
			return cmp.Compare(x, y), true, nil
		}
	}
	return 0, false, failf("%s cannot be compared with %s", kindOf(a), kindOf(b))
}

func contained(b *budget, needle, in any) (any, error) {
	if object, ok := in.(map[string]any); ok {
		name, isText := needle.(string)
		_, there := object[name]
		return isText && there, nil
	}
	list, err := toList(in)
	if err != nil {
		return nil, failf("`in` needs a list or an object on its right, but has %s", kindOf(in))
	}
	for _, v := range list {
		if same, err := b.equal(needle, v); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func betweenTexts(op string, holds func(s, t string) bool) func(a, b any) (any, error) {
	return func(a, b any) (any, error) {
		if a == nil || b == nil {
			return false, nil
		}
		s, ok := a.(string)
		t, ok2 := b.(string)
		if !ok || !ok2 {
			return nil, failf("%s needs two texts, but has %s and %s", op, kindOf(a), kindOf(b))
		}
		return holds(s, t), nil
	}
}

func matches(b *budget, a, p any) (any, error) {
	if a == nil {
		return false, nil
	}
	s, ok := a.(string)
	if !ok {
		return nil, failf("matches needs a text on its left, but has %s", kindOf(a))
	}
	return b.matches(p.(*pattern), s)
}

func onText(name string, change func(string) string) func(any) (any, error) {
	return func(v any) (any, error) {
		switch v := v.(type) {
		case nil:
			return nil, nil
		case string:
			return change(v), nil
		}
		return nil, failf("%s needs a text, but has %s", name, kindOf(v))
	}
}

func length(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return len([]rune(v)), nil
	case map[string]any:
		return len(v), nil
	}
	list, err := toList(v)
	if err != nil {
		return nil, failf("len needs a list, an object or a text, but has %s", kindOf(v))
	}
	return len(list), nil
}

func toText(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case wholeNumber:
		return string(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return nil, failf("string needs a text, a number, true or false, but has %s", kindOf(v))
}

func toTime(v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return nil, needText("date", v)
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return nil, failf(`date needs a text as "2006-01-02T15:04:05Z" or "2006-01-02"`)
}

func toDuration(v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return nil, needText("duration", v)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, failf(`duration needs a text as "1h30m"`)
	}
	return d, nil
}

// needText returns nil for nil: a missing value stays missing.
func needText(name string, v any) error {
	if v == nil {
		return nil
	}
	return failf("%s needs a text, but has %s", name, kindOf(v))
}

func absolute(v any) (any, error) {
	switch n := v.(type) {
	case nil:
		return nil, nil
	case int:
		if n == math.MinInt {
			return -float64(n), nil
		}
		return max(n, -n), nil
	case wholeNumber:
		return wholeNumber(strings.TrimPrefix(string(n), "-")), nil
	case float64:
		return math.Abs(n), nil
	}
	return nil, failf("abs needs a number, but has %s", kindOf(v))
}
