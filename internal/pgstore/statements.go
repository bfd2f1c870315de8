package pgstore

import (
	"iter"
	"regexp"
	"strings"
)

// A token of SQL may hold a semicolon that ends nothing: a literal, a quoted name, a text in dollars or a comment.
var (
	dollarQuote = regexp.MustCompile(`^\$([A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$`)
	word        = regexp.MustCompile(`^[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*`)
	// A body of SQL: BEGIN ATOMIC …; …; END. PostgreSQL knows it since 14.
	beginAtomic = regexp.MustCompile(`^(?i)begin\s+atomic\b`)
)

// statements returns the statements of a script, without their semicolons. Some servers, such as Citus, accept a
// statement that changes the schema only if it is sent alone.
func statements(script string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, at, bodies := 0, 0, 0
		blank := true // the statement has only comments and white space
		for at < len(script) {
			length, isBlank := token(script[at:])
			text := script[at : at+length]
			switch {
			case beginAtomic.MatchString(script[at:]):
				bodies++
			case bodies > 0 && strings.EqualFold(text, "case"): // ends with END, too
				bodies++
			case bodies > 0 && strings.EqualFold(text, "end"):
				bodies--
			case text == ";" && bodies == 0:
				if !blank && !yield(strings.TrimSpace(script[from:at])) {
					return
				}
				from, isBlank = at+length, true
				blank = true
			}
			blank = blank && isBlank
			at += length
		}
		if !blank {
			yield(strings.TrimSpace(script[from:]))
		}
	}
}

// token returns the length of the token that sql begins with, and whether it means nothing. A token that does not end
// reaches to the end: the server then says so.
func token(sql string) (length int, blank bool) {
	switch {
	case strings.HasPrefix(sql, "--"):
		return end(sql, 2, "\n"), true
	case strings.HasPrefix(sql, "/*"):
		return comment(sql), true
	case strings.ContainsRune(" \t\r\n\f\v", rune(sql[0])):
		return 1, true
	case sql[0] == '"':
		return end(sql, 1, `"`), false // a doubled quote begins the next token
	case sql[0] == '\'':
		return end(sql, 1, `'`), false
	case (sql[0] == 'e' || sql[0] == 'E') && len(sql) > 1 && sql[1] == '\'':
		return escaped(sql), false
	}
	if tag := dollarQuote.FindString(sql); tag != "" {
		return end(sql, len(tag), tag), false
	}
	return max(1, len(word.FindString(sql))), false
}

// end returns the place after the first mark behind from.
func end(sql string, from int, mark string) int {
	if i := strings.Index(sql[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(sql)
}

// comment returns the length of a comment, which may hold others.
func comment(sql string) int {
	depth := 0
	for at := 0; at < len(sql); at++ {
		switch {
		case strings.HasPrefix(sql[at:], "/*"):
			depth++
			at++
		case strings.HasPrefix(sql[at:], "*/"):
			depth--
			at++
			if depth == 0 {
				return at + 1
			}
		}
	}
	return len(sql)
}

// escaped returns the length of a literal such as E'it\'s'.
func escaped(sql string) int {
	for at := 2; at < len(sql); at++ {
		switch sql[at] {
		case '\\':
			at++
		case '\'':
			return at + 1
		}
	}
	return len(sql)
}
