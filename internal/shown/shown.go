// Package shown decides which characters of a text from outside may be shown as they are. Every output
// for people asks it: tables, errors, logs, JSON, CSV, pages, and commands to copy.
package shown

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden reports whether c is a character that a screen does not show, or that controls the screen or
// rearranges its text: controls, formats, separators of lines and paragraphs, unassigned ones.
func Hidden(c rune) bool {
	return !unicode.IsGraphic(c) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c)
}

// Unprintable reports whether a terminal must not get c: Hidden, or a space that looks like another one.
func Unprintable(c rune) bool { return Hidden(c) || !unicode.IsPrint(c) }

// Escape returns s with the escapes of Go for unprintable characters and for bytes that are not UTF-8, so
// that it controls no terminal. Senders choose event ids and types.
func Escape(s string) string { return EscapeStart(s, math.MaxInt) }

// EscapeStart is Escape for the beginning of s: at most limit bytes, with no part of an escape.
func EscapeStart(s string, limit int) string {
	if len(s) <= limit && utf8.ValidString(s) && !strings.ContainsFunc(s, Unprintable) {
		return s
	}
	var out []byte
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		end := len(out)
		switch {
		case c == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, s[0])
		case Unprintable(c):
			quoted := strconv.QuoteRuneToASCII(c)
			out = append(out, quoted[1:len(quoted)-1]...)
		default:
			out = append(out, s[:size]...)
		}
		if len(out) > limit {
			return string(out[:end])
		}
		s = s[size:]
	}
	return string(out)
}

// EscapeLines is Escape for a text of several lines: line feeds and tabs stay.
func EscapeLines(s string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		for cell := range strings.SplitAfterSeq(line, "\t") {
			text := strings.TrimRight(cell, "\n\t")
			b.WriteString(Escape(text) + cell[len(text):])
		}
	}
	return b.String()
}

// JSON returns an encoded JSON value with escapes for hidden characters. It is the same value.
func JSON(raw []byte) []byte {
	first := firstHidden(raw)
	if first < 0 {
		return raw
	}
	out := append(make([]byte, 0, len(raw)+64), raw[:first]...)
	for rest := raw[first:]; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		switch {
		case !hiddenInJSON(c):
			out = append(out, rest[:size]...)
		case c < 1<<16:
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			high, low := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
		rest = rest[size:]
	}
	return out
}

// hiddenInJSON is Hidden without line feeds and their like: those stand between the values.
func hiddenInJSON(c rune) bool { return c >= ' ' && Hidden(c) }

func firstHidden(raw []byte) int {
	for i, c := range raw {
		if c >= 0x7f {
			return i
		}
	}
	return -1
}

// Writer returns a writer that passes JSON on to w. Each write must end between two characters, as
// those of encoders and of slog do.
func Writer(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ to io.Writer }

func (w jsonWriter) Write(raw []byte) (int, error) {
	if _, err := w.to.Write(JSON(raw)); err != nil {
		return 0, err
	}
	return len(raw), nil
}

// NewEncoder returns an encoder of JSON for people: '<', '>' and '&' stay.
func NewEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(Writer(w))
	enc.SetEscapeHTML(false)
	return enc
}

// plainWord reports whether a shell takes c literally everywhere in a word.
func plainWord(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_./:@%+=,-", c)
}

// Word returns s as one word of a POSIX shell, for commands to copy. It holds no unprintable character
// but line feeds and tabs: the shell makes those by printf.
func Word(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !plainWord(c) }) {
		return s
	}
	var b strings.Builder
	b.WriteByte('\'')
	made := false // inside of printf
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		plain := c == '\n' || c == '\t' || !Unprintable(c) && !(c == utf8.RuneError && size == 1)
		if made == plain {
			b.WriteString(map[bool]string{false: `'"$(printf '`, true: `')"'`}[made])
			made = !made
		}
		switch {
		case made:
			for _, octet := range []byte(s[:size]) {
				fmt.Fprintf(&b, `\%03o`, octet)
			}
		case c == '\'':
			b.WriteString(`'\''`)
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	if made {
		b.WriteString(`')"`)
	} else {
		b.WriteByte('\'')
	}
	return b.String()
}
