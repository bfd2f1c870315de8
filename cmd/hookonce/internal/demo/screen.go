package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/say"
)

// Screen shows the demo. Lines and the table go to Out. The progress is one line on Live, which is nil
// if there is no terminal.
type Screen struct {
	Out    io.Writer
	Live   io.Writer
	Width  int  // of Live, in columns
	Narrow bool // Out is a terminal with less than 80 columns
	Colors bool // on Out

	fail  func(error) // is told of lines that cannot be printed
	mu    sync.Mutex
	shown bool   // the progress
	note  string // shown in place of the numbers, unless it is ""
}

// print prints lines, in place of the progress.
func (s *Screen) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	if _, err := fmt.Fprintf(s.Out, format+"\n", args...); err != nil {
		s.fail(fmt.Errorf("printing: %w", err))
	}
}

// clear removes the progress; s.mu is held.
func (s *Screen) clear() {
	if s.shown {
		s.shown = false
		fmt.Fprint(s.Live, "\r\x1b[K")
	}
}

// progress shows how far the traffic has come.
func (s *Screen) progress(done, all int, rate float64) {
	numbers := fmt.Sprintf("%7s/%s  %6s/s", say.Number(done), say.Number(all), say.Number(int(rate)))
	s.mu.Lock()
	defer s.mu.Unlock()
	line := numbers
	if width := min(s.Width-len(numbers)-6, 30); width >= 5 {
		full := width * done / max(all, 1)
		line = strings.Repeat("█", full) + strings.Repeat("░", width-full) + " " + numbers
	}
	if s.note != "" {
		line = s.note
	}
	s.shown = true
	fmt.Fprint(s.Live, "\r  "+line+"\x1b[K")
}

// wait shows a note in place of the progress.
func (s *Screen) wait(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = fmt.Sprintf(format, args...)
}

// watch shows the progress until stop is called.
func (s *Screen) watch(c *counts, all int) (stop func()) {
	if s.Live == nil {
		return func() {}
	}
	stopped := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		began := time.Now()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-tick.C:
				done := int(c.finished.Load())
				s.progress(done, all, float64(done)/time.Since(began).Seconds())
			}
		}
	})
	return func() {
		close(stopped)
		watching.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clear()
	}
}
