package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// The values of --log-format.
const (
	logAuto = "auto" // text on a terminal, otherwise json
	logText = "text"
	logJSON = "json"
)

type logFlags struct{ level, format string }

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.level, "log-level", "info", "log `LEVEL`: debug, info, warn or error")
	cmd.Flags().StringVar(&f.format, "log-format", logAuto, "log `FORMAT`: text, json, or auto (text on a terminal, otherwise json)")
}

// newLogger returns the logger of serve, which writes to stderr. The text format is safe for a
// terminal: slog quotes control characters in every value, including those of a sender.
func (p *program) newLogger(cmd *cobra.Command, f *logFlags) (*slog.Logger, error) {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	level, known := levels[f.level]
	if !known {
		return nil, newUsageError(cmd, fmt.Errorf("--log-level: %q is none of debug, info, warn and error", f.level))
	}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case f.format != logAuto && f.format != logText && f.format != logJSON:
		return nil, newUsageError(cmd, fmt.Errorf("--log-format: %q is none of text, json and auto", f.format))
	case f.isJSON(p.stderr):
		return slog.New(slog.NewJSONHandler(p.stderr, options)), nil
	}
	return slog.New(slog.NewTextHandler(p.stderr, options)), nil
}

// isJSON reports whether the log on w is JSON.
func (f *logFlags) isJSON(w io.Writer) bool {
	return f.format == logJSON || f.format == logAuto && !isTerminal(w)
}

// isTerminal reports whether w is a character device, which for a command's output means a
// terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
