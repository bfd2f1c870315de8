package driver

import (
	"strings"
	"unicode/utf8"
)

// IsText reports whether every database accepts s as text: valid UTF-8 without NUL.
func IsText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// isName reports whether s is a short text, such as an address.
func isName(text string) bool { return IsText(text) && len(text) <= MaxFigureText }
