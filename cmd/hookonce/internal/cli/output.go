package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/internal/shown"
)

// output is stdout. It keeps the first error, so that a full disk ends no command with 0.
type output struct {
	io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.Writer.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// written returns the error of the output so far. It comes before the command's own error, because the printed reason is
// not complete.
func (p *program) written() error {
	o, is := p.stdout.(*output)
	if !is {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// failure returns err, or the error of the output if a command ended with that or with none.
func (o *output) failure(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil || err != nil && !errors.Is(err, o.err) {
		return err
	}
	cause := o.err
	if wrapped, is := errors.AsType[*fs.PathError](cause); is {
		cause = wrapped.Err
	}
	return app.Errorf("writing the output: %w", cause).
		Try("make room for the output, and look before you run it again: a change that it made stays")
}

// fileOf returns the file that w writes to, if it is one.
func fileOf(w io.Writer) (*os.File, bool) {
	if o, is := w.(*output); is {
		w = o.Writer
	}
	file, is := w.(*os.File)
	return file, is
}

// writeJSON prints v the way the API encodes it, indented.
func writeJSON(w io.Writer, v any) error {
	enc := shown.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func addJSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, in the shape of the API")
}
