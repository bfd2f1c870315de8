package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/hookonce/hookonce/internal/shown"
)

// press works on a key of listen.
func (l *listener) press(ctx context.Context, key rune) error {
	if l.last == nil {
		return nil
	}
	var err error
	switch key {
	case 'r':
		again := *l.last
		err = l.deliver(ctx, &again)
	case 'e':
		err = l.editAndResend(ctx)
	case 's':
		err = l.save()
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(l.notes, "Error: %s\n", shown.Escape(err.Error()))
	}
	return nil
}

// editAndResend opens the body of the last copy in an editor, and sends the result.
func (l *listener) editAndResend(ctx context.Context) error {
	body, err := l.edit(ctx, l.last)
	if err != nil {
		return fmt.Errorf("not sent: %w", err)
	}
	edited := *l.last
	switch {
	case l.signer != nil || l.as != nil:
		if err := l.sign(&edited, body); err != nil {
			return fmt.Errorf("not sent: %w", err)
		}
	case !bytes.Equal(body, l.last.body):
		edited.body, edited.Remark = body, "edited, so the signature does not fit"
	}
	return l.deliver(ctx, &edited)
}

// edit returns the body of a copy as the user's editor leaves it.
func (l *listener) edit(ctx context.Context, c *copied) (body []byte, err error) {
	command := l.variable("VISUAL")
	if command == "" {
		command = l.variable("EDITOR")
	}
	words := strings.Fields(command)
	if len(words) == 0 {
		words = []string{"vi"}
	}
	dir, err := os.MkdirTemp("", "hookonce-listen-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, fileName(c))
	if err := os.WriteFile(file, c.body, 0o600); err != nil {
		return nil, err
	}
	l.screen.leave()
	defer l.screen.enter()
	editor := exec.CommandContext(ctx, words[0], append(words[1:], file)...)
	editor.Stdin, editor.Stdout, editor.Stderr = l.screen.in, l.stdout, l.stderr
	if err := editor.Run(); err != nil {
		return nil, fmt.Errorf("the editor %s (EDITOR) failed: %w", words[0], err)
	}
	return os.ReadFile(file)
}

// save writes the body of the last copy to a new file in the working directory.
func (l *listener) save() error {
	name := fileName(l.last)
	base, ext := strings.TrimSuffix(name, filepath.Ext(name)), filepath.Ext(name)
	for n := 2; ; n++ {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			name = fmt.Sprintf("%s-%d%s", base, n, ext)
			continue
		}
		if err != nil {
			return fmt.Errorf("not saved: %w", err)
		}
		_, err = file.Write(l.last.body)
		if err := errors.Join(err, file.Close()); err != nil {
			return errors.Join(fmt.Errorf("not saved: %w", err), os.Remove(name))
		}
		_, err = fmt.Fprintf(l.notes, "Saved the body in %s.\n", name)
		return err
	}
}

// fileName returns a name for the body of a copy. It keeps only letters, digits and hyphens of the event
// id: senders choose it.
func fileName(c *copied) string {
	const longest = 80
	name := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-') {
			return r
		}
		return '_'
	}, c.EventID)
	name = strings.TrimLeft(name[:min(len(name), longest)], "-")
	if name == "" {
		name = "event"
	}
	ext := ".body"
	switch kind := c.header.Get("Content-Type"); {
	case strings.Contains(kind, "json"):
		ext = ".json"
	case strings.Contains(kind, "xml"):
		ext = ".xml"
	}
	return name + ext
}
