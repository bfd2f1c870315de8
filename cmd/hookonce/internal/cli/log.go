package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/shown"
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
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: logTime}
	switch {
	case f.format != logAuto && f.format != logText && f.format != logJSON:
		return nil, newUsageError(cmd, fmt.Errorf("--log-format: %q is none of text, json and auto", f.format))
	case f.isJSON(p.stderr):
		return slog.New(slog.NewJSONHandler(shown.Writer(p.stderr), options)), nil
	}
	return slog.New(slog.NewTextHandler(p.stderr, options)), nil
}

// isJSON reports whether the log on w is JSON.
func (f *logFlags) isJSON(w io.Writer) bool {
	return f.format == logJSON || f.format == logAuto && !isTerminal(w)
}

// warnings returns the logger of a command that runs an engine for a moment.
func (p *program) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: logTime}))
}

// logTime writes the time of a line as the API does: in UTC, with microseconds.
func logTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		a.Value = slog.StringValue(hookadmin.Time(a.Value.Time()).String())
	}
	return a
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, is := fileOf(w)
	return is && term.IsTerminal(int(file.Fd()))
}
