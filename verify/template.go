package verify

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

type partKind uint8

const (
	partLiteral partKind = iota
	partBody
	partTimestamp
	partID
	partURL
	partMethod
	partHeader
)

// part is one piece of the signed content.
type part struct {
	kind partKind
	text string // a literal's bytes, or a header's canonical name
	// Of a header: the bytes of the template on its two sides, which its value
	// must not contain; 0 where there is none.
	before, after byte
	// Of a header: its value borders on another value with nothing between, so
	// that where it begins or ends is not signed.
	loose bool
}

var placeholders = map[string]partKind{
	"body": partBody, "timestamp": partTimestamp, "id": partID, "url": partURL, "method": partMethod,
}

// parseTemplate reads Scheme.Content.
func parseTemplate(s string) ([]part, error) {
	var parts []part
	for s != "" {
		open := strings.IndexAny(s, "{}")
		if open < 0 {
			open = len(s)
		}
		if open > 0 {
			text, err := literal(s[:open])
			if err != nil {
				return nil, err
			}
			parts = append(parts, part{kind: partLiteral, text: text})
			s = s[open:]
			continue
		}
		end := strings.IndexByte(s, '}')
		if s[0] == '}' || end < 0 {
			return nil, fmt.Errorf("a '%c' stands alone", s[0])
		}
		p, err := placeholder(s[1:end])
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		s = s[end+1:]
	}
	guard(parts)
	return parts, nil
}

func literal(s string) (string, error) {
	rest := strings.ReplaceAll(s, `\n`, "\n")
	if strings.Contains(rest, `\`) {
		return "", errors.New(`a '\' must be followed by 'n', which stands for a line feed`)
	}
	return rest, nil
}

func placeholder(name string) (part, error) {
	if header, ok := strings.CutPrefix(name, "header:"); ok {
		if !locate.ValidHeaderName(header) {
			return part{}, fmt.Errorf("{%s} does not name a header", name)
		}
		return part{kind: partHeader, text: http.CanonicalHeaderKey(header)}, nil
	}
	kind, ok := placeholders[name]
	if !ok {
		return part{}, fmt.Errorf("{%s} is unknown: use {body}, {timestamp}, {url}, {method} or {header:Name}", name)
	}
	return part{kind: kind}, nil
}

// guard works out what the headers among parts border on. A timestamp fixes
// the border by itself: it has one strict form, and moving bytes into or out
// of it leaves the tolerance.
func guard(parts []part) {
	for i := range parts {
		p := &parts[i]
		if p.kind != partHeader {
			continue
		}
		if i > 0 {
			switch prev := parts[i-1]; prev.kind {
			case partLiteral:
				p.before = prev.text[len(prev.text)-1]
			case partTimestamp:
			default:
				p.loose = true
			}
		}
		if i < len(parts)-1 {
			switch next := parts[i+1]; next.kind {
			case partLiteral:
				p.after = next.text[0]
			case partTimestamp:
			default:
				p.loose = true
			}
		}
	}
}

func has(parts []part, kind partKind) bool {
	for _, p := range parts {
		if p.kind == kind {
			return true
		}
	}
	return false
}
