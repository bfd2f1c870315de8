package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/runbook"
	"github.com/hookonce/hookonce/internal/shown"
)

// adminURLVariable names a gateway in place of --admin-url.
const adminURLVariable = "HOOKONCE_ADMIN_URL"

// readAdminURL takes the address of the gateway from its variable. Flags win over variables, so --config
// and --database leave it aside.
func (p *program) readAdminURL(f *apiFlags) {
	if f.adminURL == "" && f.config == "" && f.database == "" && !f.cmd.Flags().Changed(f.name) {
		f.adminURL = p.variable(adminURLVariable)
		f.variable = f.adminURL != ""
	}
}

// checkAdminURL refuses an address beside a database, and an empty one.
func (f *apiFlags) checkAdminURL() error {
	switch {
	case f.adminURL != "" && f.database != "":
		return newUsageError(f.cmd, fmt.Errorf("--%s and --database exclude each other", f.name))
	case f.adminURL == "" && f.cmd.Flags().Changed(f.name):
		return newUsageError(f.cmd, fmt.Errorf("--%s has no value", f.name))
	}
	return nil
}

// mayGuess reports whether a command may ask a gateway by its address alone: if nothing
// names a database, or if the settings lead to none. They do so on a server, where a service has other
// variables and another working directory than the person who types.
func (p *program) mayGuess(f *settingsFlags, settings *config.Settings, faults *config.Faults) bool {
	return f.database == "" && !p.namesUnread(f, faults) && (faults != nil || p.noDatabase(f, settings) || p.missing(settings))
}

// namesUnread reports whether the named settings file cannot be read. Then a gateway that answers may be another one.
func (p *program) namesUnread(f *settingsFlags, faults *config.Faults) bool {
	return faults != nil && faults.Unread && cmp.Or(f.config, p.variable("HOOKONCE_CONFIG")) != ""
}

// missing reports whether the SQLite file of the settings does not exist.
func (p *program) missing(settings *config.Settings) bool {
	path, is := settings.SQLitePath()
	return is && !exists(path)
}

// answering returns a client, without a token, of a gateway that answers at the admin address of the
// settings; nil if none does. Any program of this machine may listen there, so no token goes to it.
func answering(ctx context.Context, settings *config.Settings) *adminclient.Client {
	host, port, err := net.SplitHostPort(settings.Admin.Listen)
	if err != nil || port == "0" {
		return nil
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return withoutToken(ctx, "http://"+net.JoinHostPort(host, port))
}

// withoutToken returns a client that sends no token, or nil if no gateway answers.
func withoutToken(ctx context.Context, address string) *adminclient.Client {
	client, err := adminclient.New(address, "", nil)
	if err != nil || !client.Alive(ctx) {
		return nil
	}
	return client
}

// checkTokenless fails if the gateway of a client without a token needs one.
func checkTokenless(ctx context.Context, client *adminclient.Client) error {
	_, err := client.Gateway(ctx)
	if problem, is := errors.AsType[*adminclient.Problem](err); is && problem.Status == http.StatusUnauthorized {
		return needsToken(client)
	}
	return nil
}

// guessedGateway returns answering's client, and says on stderr which gateway that is. It fails if the
// gateway needs a token.
func (p *program) guessedGateway(ctx context.Context, settings *config.Settings) (*adminclient.Client, error) {
	client := answering(ctx, settings)
	if client == nil {
		return nil, nil
	}
	if err := checkTokenless(ctx, client); err != nil {
		return nil, err
	}
	return client, p.nameGateway(ctx, client, settings)
}

func needsToken(client *adminclient.Client) error {
	return see(runbook.WrongDatabase, app.Errorf("a gateway answers at %s, and needs a token; none is sent to an address that you did not name", client).
		Try("--admin-url "+client.String()+", with the token in HOOKONCE_ADMIN_TOKEN, or beside it --config "+app.SettingsToName()+", which holds it"))
}

// nameGateway says on stderr which gateway is asked. It fails if the settings name another PostgreSQL. If the
// gateway does not say, the request itself will fail with the reason.
func (p *program) nameGateway(ctx context.Context, client *adminclient.Client, settings *config.Settings) error {
	about, err := client.Gateway(ctx)
	if err != nil {
		return nil
	}
	if _, is := settings.SQLitePath(); settings.Database != "" && !is && about.Database != settings.DatabaseDisplay() {
		return see(runbook.WrongDatabase, app.Errorf("the gateway at %s is on the database %s, and the settings name %s", client, shown.Escape(about.Database), settings.DatabaseDisplay()).
			Try("--admin-url "+client.String()+" if that gateway is meant; or fix the settings"))
	}
	words := []string{client.String()}
	for _, word := range []string{about.Title, about.Database} {
		if word != "" {
			words = append(words, shown.Escape(word))
		}
	}
	_, _ = fmt.Fprintln(p.stderr, "Gateway: "+strings.Join(words, " · ")) // a closed stderr is no reason to stop
	return nil
}

// nothingHere is the error of a command that finds neither a gateway nor a database.
func (p *program) nothingHere(f *settingsFlags, settings *config.Settings) error {
	if p.noDatabase(f, settings) {
		return see(runbook.WrongDatabase, app.Errorf("no gateway answers at http://%s, and there are no settings and no database here", settings.Admin.Listen).
			Try("--admin-url URL of the gateway; or --config "+app.SettingsToName()+" with its settings; or --database URL"))
	}
	path, _ := settings.SQLitePath()
	return see(runbook.WrongDatabase, app.Errorf("no gateway answers at http://%s, and the database %s does not exist here", settings.Admin.Listen, shown.Escape(path)).
		Try("--admin-url URL of the gateway; or --database sqlite:PATH, because a relative path of the settings is one of the gateway's folder"))
}

// loadToOpen is load for a command that opens the database itself. It refuses to make a file, or to miss one,
// where a gateway runs on a database that the caller did not name: the file is probably that of the gateway,
// and only its owner should say so.
func (p *program) loadToOpen(ctx context.Context, f *settingsFlags) (*config.Settings, error) {
	settings, faults := p.inspect(f, config.Flags{})
	if faults != nil {
		if err := f.misused(faults); err != nil {
			return nil, err
		}
	}
	if f.database == "" && !p.namesUnread(f, faults) && (p.missing(settings) || faults != nil) {
		if client := answering(ctx, settings); client != nil {
			return nil, unnamed(ctx, client)
		}
	}
	if faults != nil {
		return nil, unusableSettings(faults)
	}
	return settings, nil
}

// unnamed is the error for a database that only a guessed gateway names.
func unnamed(ctx context.Context, client *adminclient.Client) error {
	database := "sqlite:PATH"
	text := fmt.Sprintf("this command opens a database itself, and only the gateway at %s knows its own", client)
	if about, err := client.Gateway(ctx); err == nil && about.Database != "" {
		text = fmt.Sprintf("this command opens a database itself, and only the gateway at %s names one: %s", client, about.Database)
		database = about.Database
	}
	if !strings.HasPrefix(database, "sqlite:") {
		database = "URL"
	}
	return see(runbook.WrongDatabase, &app.Error{Err: errors.New(text), Remedy: "--database " + word(database) + ", as the user of that gateway"})
}
