package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
)

func (p *program) readyCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Ask the running gateway whether it can claim deliveries",
		Long: "Ask the running gateway whether it can claim deliveries: a health check for\n" +
			"containers. The exit code is 0 if it can, and 1 otherwise, with the reason in\n" +
			"one line and the remedy in another. With --admin-url no settings are read.",
		Example: "  hookonce ready\n  hookonce ready --admin-url http://127.0.0.1:8081",
		Args:    noArgs,
	}
	flags := addAPIFlags(cmd)
	cmd.Flags().Lookup("admin-url").Usage = "ask the gateway with this admin `URL`; it needs no token"
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "wait at most this `DURATION` for an answer")
	p.complete(flags, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return newUsageError(cmd, errors.New("--timeout must be longer than 0"))
		}
		client, err := p.gatewayToProbe(cmd.Context(), flags)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		if err := client.Ready(ctx); err != nil {
			return notReady(client, timeout, err)
		}
		fmt.Fprintln(p.stdout, "ready")
		return nil
	}
	return cmd
}

// gatewayToProbe returns a client, without a token, of the gateway at --admin-url or of the local one.
// Of the settings only the database matters.
func (p *program) gatewayToProbe(ctx context.Context, f *apiFlags) (*adminclient.Client, error) {
	p.readAdminURL(f)
	if err := f.checkAdminURL(); err != nil {
		return nil, err
	}
	address := f.adminURL
	if address == "" {
		settings, faults := p.inspect(f.settingsFlags, config.Flags{})
		if faults != nil {
			if err := f.misused(faults); err != nil {
				return nil, err
			}
			if settings.Database == "" && settings.Admin.Listen == "" || p.namesUnread(f.settingsFlags, faults) {
				return nil, &app.Error{Err: unusable(faults), Remedy: "fix them; hookonce config check reads them again"}
			}
		}
		if address, _ = app.LocalGateway(settings); address == "" && p.mayGuess(f.settingsFlags, settings, faults) {
			if client := answering(ctx, settings); client != nil {
				return client, nil
			}
		}
		if address == "" {
			return nil, app.Errorf("no gateway of this user serves %s", settings.DatabaseDisplay()).
				Try("start it with hookonce serve, or --admin-url URL of the gateway")
		}
	}
	roots, err := f.ca.roots()
	if err != nil {
		return nil, err
	}
	client, err := adminclient.New(address, "", roots)
	if err != nil {
		return nil, newUsageError(f.cmd, errors.Join(errors.New("--admin-url cannot be used"), err))
	}
	return client, nil
}

// notReady returns err, the answer to a probe, as one line and its remedy: the status of a container
// shows few lines.
func notReady(client *adminclient.Client, timeout time.Duration, err error) error {
	var problem *adminclient.Problem
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return app.Errorf("the gateway at %s did not answer within %s", client, timeout).
			Try("look at the log of that gateway; it may be overloaded, or wait for its database")
	case errors.As(err, &problem) && problem.Status == http.StatusServiceUnavailable:
		_, id, _ := strings.Cut(problem.Instance, "error:")
		about, remedy := "; its log has the reason under ", "follow that reason; a gateway that stops or starts is not ready either"
		if reason := problem.Why(); reason != "" {
			about, remedy = ": "+reason+"; its log has more under ", "follow that reason; doctor on that machine tells more"
		}
		return app.Errorf("the gateway at %s cannot claim deliveries now%s%q", client, about, id).Try(remedy)
	}
	return &app.Error{Err: errors.New(strings.Join(strings.Fields(err.Error()), " ")), Remedy: hintFor(err)}
}
