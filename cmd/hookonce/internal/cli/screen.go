package cli

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/hookonce/hookonce/internal/shown"
)

// Keys other than characters.
const (
	keyEnter     = '\r'
	keyEscape    = '\x1b'
	keyBackspace = '\x7f'
	keyInterrupt = '\x03' // where Ctrl-C is not a signal
)

// screen shows lines above a status line, and reads keys. Without a terminal it is nil: its writer is
// then the plain one, and it has no keys. It is safe for concurrent use.
type screen struct {
	in  *os.File
	out io.Writer

	// keys delivers the keys. After a burst of them it waits for a receive from more.
	keys chan rune
	more chan struct{}
	ends chan struct{} // closed by close

	mu      sync.Mutex
	restore func() // nil while the terminal is as it was
	status  string
	closed  bool
}

// newScreen returns a screen if stdin and stdout are a terminal that can move its cursor, or nil.
func (p *program) newScreen() *screen {
	in, isFile := p.stdin.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) || !isTerminal(p.stdout) || p.variable("TERM") == "dumb" {
		return nil
	}
	s := &screen{in: in, out: p.stdout, keys: make(chan rune), more: make(chan struct{}), ends: make(chan struct{})}
	restore, err := keyMode(int(in.Fd()))
	if err != nil {
		return nil // lines without keys are better than none
	}
	s.restore = restore
	go s.read()
	return s
}

// read delivers keys. It does not read on while the keys that it has read are worked on, so that an
// editor gets the next ones.
func (s *screen) read() {
	buf := make([]byte, 256)
	for {
		n, err := s.in.Read(buf)
		if err != nil {
			return // the terminal is gone; so is the command, by its signal
		}
		for _, key := range keysOf(string(buf[:n])) {
			select {
			case s.keys <- key:
			case <-s.ends:
				return
			}
		}
		select {
		case s.more <- struct{}{}:
		case <-s.ends:
			return
		}
	}
}

// keysOf returns the keys of an input. Sequences of other keys, such as arrows, are left out.
func keysOf(input string) []rune {
	var keys []rune
	for len(input) > 0 {
		key, size := utf8.DecodeRuneInString(input)
		input = input[size:]
		switch {
		case key == keyEscape && (strings.HasPrefix(input, "[") || strings.HasPrefix(input, "O")):
			end := strings.IndexFunc(input[1:], func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				return keys
			}
			input = input[end+2:]
			continue
		case key == '\n':
			key = keyEnter
		case key == '\b':
			key = keyBackspace
		case key == utf8.RuneError:
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// pressed returns the channel of the keys; nil without a terminal.
func (s *screen) pressed() <-chan rune {
	if s == nil {
		return nil
	}
	return s.keys
}

// ready returns the channel to receive from whenever the keys so far were worked on.
func (s *screen) ready() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.more
}

// Write shows whole lines above the status line.
func (s *screen) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == "" {
		return s.out.Write(lines)
	}
	if _, err := io.WriteString(s.out, "\r\x1b[K"+string(lines)+s.shown()); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// setStatus replaces the status line; "" removes it.
func (s *screen) setStatus(status string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if status == s.status || s.closed {
		return
	}
	s.status = status
	_, _ = io.WriteString(s.out, "\r\x1b[K"+s.shown())
}

// shown returns the status line as it fits the terminal. The last column stays free, so that the
// terminal does not begin a new line.
func (s *screen) shown() string {
	line := snip(shown.Escape(s.status), max(s.width()-1, 1))
	if coloured() && line != "" {
		line = text.Faint.Sprint(line)
	}
	return line
}

// width returns the number of columns.
func (s *screen) width() int {
	if width, _ := terminalWidth(s.out); width > 0 {
		return width
	}
	return 80
}

// leave makes the terminal as it was, while another program uses it.
func (s *screen) leave() {
	s.setStatus("")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restore != nil {
		s.restore()
		s.restore = nil
	}
}

// enter takes the terminal again after leave.
func (s *screen) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restore == nil && !s.closed {
		if restore, err := keyMode(int(s.in.Fd())); err == nil {
			s.restore = restore
		}
	}
}

// close makes the terminal as it was. It may be called twice.
func (s *screen) close() {
	if s == nil {
		return
	}
	s.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.ends)
	}
}

// guard is deferred in goroutines that work beside the one that closes the screen: a panic there would
// leave the terminal as it is.
func (s *screen) guard() {
	if v := recover(); v != nil {
		s.close()
		panic(v)
	}
}
