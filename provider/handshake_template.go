package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/locate"
)

// template is a text with placeholders.
type template []templatePart

// templatePart is literal text, or a placeholder.
type templatePart struct {
	literal string
	name    string // token, digest, url, param or json; "" for literal text
	param   string
	json    *locate.Expr
}

// filling holds the values of the placeholders.
type filling struct {
	token, digest string
	setup         *HandshakeSetup
	in            *locate.Input
}

// template compiles a text, and adds the settings that it uses to c.needs.
func (c *handshakeCompiler) template(field, text string) template {
	var t template
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if literal != "" {
			t = append(t, templatePart{literal: literal})
		}
		if !found {
			break
		}
		inner, after, closed := strings.Cut(rest, "}")
		if !closed {
			c.fault("%s: a '{' is not closed", field)
			break
		}
		t = append(t, c.placeholder(field, inner))
		text = after
	}
	return t
}

func (c *handshakeCompiler) placeholder(field, text string) templatePart {
	name, argument, _ := strings.Cut(text, ":")
	part := templatePart{name: name}
	switch {
	case text == "token" && c.token:
	case text == "digest" && c.digest:
	case text == "url":
		c.needs.url = true
	case name == "param" && argument != "":
		part.param = argument
		if !slices.Contains(c.needs.params, argument) {
			c.needs.params = append(c.needs.params, argument)
		}
	case name == "json" && argument != "" && field == "confirm":
		var err error
		if part.json, err = locate.Parse("body:" + argument); err != nil {
			c.fault("%s: %w", field, err)
		} else if !part.json.IsSingle() {
			c.fault("%s: {%s} is not a single path", field, text)
		}
	default:
		c.fault("%s: {%s} is unknown here", field, text)
	}
	return part
}

func (t template) fill(f *filling) (string, error) {
	var b strings.Builder
	for i := range t {
		part := &t[i]
		text := part.literal
		switch part.name {
		case "token":
			text = f.token
		case "digest":
			text = f.digest
		case "url":
			text = f.setup.URL
		case "param":
			text = f.setup.Params[part.param]
		case "json":
			var err error
			if text, err = part.json.Single(f.in, maxJSON); err != nil {
				return "", fmt.Errorf("%w: %w", ErrHandshakeToken, err)
			}
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// fillJSON returns v, which handshakeCompiler.json made, with its templates filled in.
func fillJSON(v any, f *filling) (any, error) {
	switch v := v.(type) {
	case template:
		return v.fill(f)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = fillJSON(v[i], f); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for name := range v {
			var err error
			if object[name], err = fillJSON(v[name], f); err != nil {
				return nil, err
			}
		}
		return object, nil
	default:
		return v, nil
	}
}
