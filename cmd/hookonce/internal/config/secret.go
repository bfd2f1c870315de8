package config

import (
	"fmt"
	"log/slog"
)

// Secret is a text that prints as "<secret>" in every form. Convert it to a string to use it.
type Secret string

const redacted = "<secret>"

// String returns "<secret>", or "" for the empty Secret, so that a log shows whether there is one.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString returns the result of String, quoted.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format writes the result of String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue returns the result of String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the result of String, also for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
