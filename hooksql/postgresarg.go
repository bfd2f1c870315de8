package hooksql

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// postgresArgs turns the arguments of a statement into values that every driver takes. The
// statements cast each argument, so an array is sent as text: the standard library has no arrays. A
// nil slice or pointer is NULL.
func postgresArgs(args []any) ([]any, error) {
	converted := make([]any, len(args))
	for i, arg := range args {
		var err error
		if converted[i], err = postgresArg(arg); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return converted, nil
}

func postgresArg(arg any) (driver.Value, error) {
	switch v := arg.(type) {
	case nil, string, bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case []byte:
		if v == nil {
			return nil, nil
		}
		return v, nil
	case *time.Time:
		if v == nil {
			return nil, nil
		}
		return toMicrosecond(*v), nil
	case [][]byte:
		return arrayOf(v, appendBytes), nil
	case []string:
		return arrayOf(v, appendText), nil
	case []bool:
		return arrayOf(v, strconv.AppendBool), nil
	case []int64:
		return arrayOf(v, appendInt), nil
	case []int32:
		return arrayOf(v, appendInt), nil
	case []int16:
		return arrayOf(v, appendInt), nil
	case []*time.Time:
		return arrayOf(v, appendTime), nil
	}
	return nil, fmt.Errorf("cannot send a %T", arg)
}

// toMicrosecond truncates a time to a microsecond, the unit of timestamptz. Some drivers leave that
// to the server, which rounds.
func toMicrosecond(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// arrayOf returns the text of an array in the server's syntax
// (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO).
func arrayOf[E any](elements []E, appendElement func([]byte, E) []byte) driver.Value {
	if elements == nil {
		return nil
	}
	text := []byte{'{'}
	for i, element := range elements {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendElement(text, element)
	}
	return string(append(text, '}'))
}

// appendText always quotes an element, because some unquoted texts have a meaning, such as NULL.
func appendText(text []byte, element string) []byte {
	text = append(text, '"')
	for i := range len(element) { // by bytes: neither quote nor backslash is part of another character
		if element[i] == '"' || element[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, element[i])
	}
	return append(text, '"')
}

// appendBytes writes a bytea in its hex format. The array's syntax escapes the backslash.
func appendBytes(text, element []byte) []byte {
	if element == nil {
		return append(text, "NULL"...)
	}
	text = append(text, `"\\x`...)
	return append(hex.AppendEncode(text, element), '"')
}

func appendInt[N int16 | int32 | int64](text []byte, element N) []byte {
	return strconv.AppendInt(text, int64(element), 10)
}

func appendTime(text []byte, element *time.Time) []byte {
	if element == nil {
		return append(text, "NULL"...)
	}
	text = append(text, '"')
	return append(toMicrosecond(*element).AppendFormat(text, "2006-01-02 15:04:05.999999Z07:00"), '"')
}
