package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
)

// The values of --log-format.
const (
	logAuto = "auto" // text on a terminal, else json
	logText = "text"
	logJSON = "json"
)

type logFlags struct{ level, format string }

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&f.format, "log-format", logAuto, "text, json, or auto: text on a terminal, else json")
}

// newLogger returns the logger of serve, which writes to stderr.
func (p *program) newLogger(cmd *cobra.Command, f *logFlags) (*slog.Logger, error) {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	level, known := levels[f.level]
	if !known {
		return nil, newUsageError(cmd, fmt.Errorf("--log-level: %q is none of debug, info, warn and error", f.level))
	}
	terminal := isTerminal(p.stderr)
	switch f.format {
	case logJSON:
	case logText:
		return slog.New(textHandler(p.stderr, level, terminal && !p.noColor())), nil
	case logAuto:
		if terminal {
			return slog.New(textHandler(p.stderr, level, !p.noColor())), nil
		}
	default:
		return nil, newUsageError(cmd, fmt.Errorf("--log-format: %q is none of text, json and auto", f.format))
	}
	return slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: level})), nil
}

// textHandler writes lines for people. In colour tint passes escape sequences
// inside of values on to the terminal, so they are made harmless before.
func textHandler(w io.Writer, level slog.Level, color bool) slog.Handler {
	return tint.NewHandler(w, &tint.Options{
		Level:      level,
		TimeFormat: "15:04:05.000",
		NoColor:    !color,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch v := a.Value.Any().(type) {
			case string:
				a.Value = slog.StringValue(printable(v))
			case slog.Level, time.Time, time.Duration: // tint has forms of its own for these
			case error, fmt.Stringer, []byte, []string:
				a.Value = slog.StringValue(printable(fmt.Sprint(v)))
			}
			return a
		},
	})
}

// noColor follows https://no-color.org.
func (p *program) noColor() bool {
	return slices.ContainsFunc(p.environ, func(entry string) bool {
		return strings.HasPrefix(entry, "NO_COLOR=") && entry != "NO_COLOR="
	})
}

// isTerminal reports whether w is a character device, which for the output of
// a command means a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
