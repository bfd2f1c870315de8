package cli

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
)

// stopped is the error of work that failed after a part of it. resume continues it, unless the gateway
// refuses this caller.
func stopped(after string, err error, resume string) error {
	failed := fmt.Errorf("stopped after %s: %w", after, err)
	if refusal, is := errors.AsType[*adminclient.Problem](err); is && refusal.Refused() {
		return failed
	}
	return &app.Error{Err: failed, Remedy: resume}
}

// sameCommand returns the command line, to be shown. It leaves out a database, which may hold a
// password.
func (p *program) sameCommand(cmd *cobra.Command) string {
	if cmd.Flags().Changed("database") {
		return "the same command with"
	}
	words := []string{"hookonce"}
	for _, arg := range p.args {
		words = append(words, word(arg))
	}
	return strings.Join(words, " ")
}

// continued returns the command that continues a job: the same command with its request id, and with the
// absolute times from query.
func (b *bulk) continued(query url.Values) string {
	if b.cmd.Flags().Changed("database") {
		return "the same command with --request-id " + word(b.requestID) + ", and times that are not relative"
	}
	words := []string{b.cmd.CommandPath()}
	b.cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		switch {
		case f.Name == "request-id", f.Value.Type() == "bool" && value == "false":
		case f.Name == "since" || f.Name == "until":
			words = append(words, "--"+f.Name, query.Get(f.Name))
		case f.Value.Type() == "bool" && value == "true":
			words = append(words, "--"+f.Name)
		default:
			words = append(words, "--"+f.Name, word(value))
		}
	})
	return strings.Join(words, " ") + " --request-id " + word(b.requestID)
}
