package cli

import (
	"os"

	"github.com/spf13/cobra"
)

// Root returns the tree of all commands.
func Root() *cobra.Command { return new(program).rootCommand() }

// PanicBesideScreen panics in a goroutine that works beside a screen on terminal, and recovers above it.
func PanicBesideScreen(terminal *os.File) {
	p := &program{stdin: terminal, stdout: terminal}
	s := p.newScreen()
	if s == nil {
		panic("there is no screen")
	}
	s.setStatus("a status line")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		defer s.guard()
		panic("a fault")
	}()
	<-done
}
