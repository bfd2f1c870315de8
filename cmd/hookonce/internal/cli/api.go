package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/settingfile"
)

// apiFlags are the flags of every command that asks the admin API.
type apiFlags struct {
	*settingsFlags
	adminURL string
	name     string // of the flag with the URL
	variable bool   // adminURL is that of HOOKONCE_ADMIN_URL
	ca       caFlag
}

// place names the flag or the variable of adminURL.
func (f *apiFlags) place() string {
	if f.variable {
		return adminURLVariable
	}
	return "--" + f.name
}

func addAPIFlags(cmd *cobra.Command) *apiFlags {
	f := &apiFlags{settingsFlags: addSettingsFlags(cmd), name: "admin-url"}
	cmd.Flags().StringVar(&f.adminURL, f.name, "", "ask the gateway with this admin `URL` (or HOOKONCE_ADMIN_URL); its token is read from HOOKONCE_ADMIN_TOKEN")
	f.ca.add(cmd)
	return f
}

// caFlag is the flag --ca.
type caFlag struct {
	cmd  *cobra.Command
	file string
}

func (f *caFlag) add(cmd *cobra.Command) {
	f.cmd = cmd
	cmd.Flags().StringVar(&f.file, "ca", "", "trust the authorities in this `FILE` (PEM), too, for https URLs")
}

// maxTrustFile bounds the size of a file with certificates or a token, in bytes.
const maxTrustFile = 1 << 20

// roots returns the authorities of the system and those of --ca; nil without that flag.
func (f *caFlag) roots() (*x509.CertPool, error) {
	if !f.cmd.Flags().Changed("ca") {
		return nil, nil
	}
	file, err := settingfile.ReadAny(f.file, maxTrustFile)
	if err != nil {
		return nil, newUsageError(f.cmd, fmt.Errorf("--ca: %q cannot be read: %w", f.file, err))
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // the system has none
	}
	if !roots.AppendCertsFromPEM(file.Data) {
		return nil, newUsageError(f.cmd, fmt.Errorf("--ca: %s holds no certificate in PEM", f.file))
	}
	return roots, nil
}

// access says whether a command changes anything.
type access bool

const (
	reads   access = false
	changes access = true
)

// api is the admin API of the gateway that --admin-url names; or of a gateway of this user that runs
// on the database of the settings; or in this process, on that database and with the settings.
type api struct {
	*adminclient.Client
	progress *progress
	engine   *hookonce.Engine // of the API in this process; nil with a gateway
}

// withAPI calls work with the admin API.
func (p *program) withAPI(ctx context.Context, f *apiFlags, how access, work func(context.Context, *api) error) error {
	client, settings, err := p.findGateway(ctx, f, how)
	if err != nil {
		return err
	}
	if client != nil {
		return work(ctx, &api{client, p.newProgress(), nil})
	}
	if f.database == "" && p.missing(settings) {
		return p.nothingHere(f.settingsFlags, settings)
	}
	return using(ctx, settings, app.OpenStore, func(ctx context.Context, store driver.Store) error {
		if err := app.CheckSchema(ctx, store); err != nil {
			return err
		}
		here, err := p.apiOf(store, settings, how)
		if err != nil {
			return err
		}
		return work(ctx, here)
	})
}

// findGateway returns a client of a running gateway, or nil and the settings if there is none. A gateway
// needs no settings here, so their faults matter only without one.
func (p *program) findGateway(ctx context.Context, f *apiFlags, how access) (*adminclient.Client, *config.Settings, error) {
	p.readAdminURL(f)
	if err := f.checkAdminURL(); err != nil {
		return nil, nil, err
	}
	if f.adminURL != "" {
		client, err := p.namedGateway(f)
		if err == nil && how == changes && f.variable {
			err = p.nameGateway(ctx, client, &config.Settings{})
		}
		return client, nil, err
	}
	settings, faults := p.inspect(f.settingsFlags, config.Flags{})
	if faults != nil {
		if err := f.misused(faults); err != nil {
			return nil, nil, err
		}
	}
	if p.namesUnread(f.settingsFlags, faults) {
		return nil, nil, unusableSettings(faults)
	}
	client, err := p.localGateway(ctx, settings)
	if client == nil && err == nil && p.mayGuess(f.settingsFlags, settings, faults) {
		client, err = p.guessedGateway(ctx, settings)
	}
	if client == nil && err == nil && faults != nil {
		err = unusableSettings(faults)
	}
	return client, settings, err
}

// namedGateway returns a client of the gateway at --admin-url. The settings are read for the token
// alone, so their faults matter only if --config names them.
func (p *program) namedGateway(f *apiFlags) (*adminclient.Client, error) {
	settings, faults := p.inspect(f.settingsFlags, config.Flags{})
	if faults != nil && f.config != "" {
		return nil, unusableSettings(faults)
	}
	roots, err := f.ca.roots()
	if err != nil {
		return nil, err
	}
	token, err := p.token(settings)
	if err != nil {
		return nil, err
	}
	client, err := adminclient.New(f.adminURL, token, roots)
	if err != nil {
		return nil, newUsageError(f.cmd, fmt.Errorf("%s: %w", f.place(), err))
	}
	return client, nil
}

// localGateway returns a client of the gateway of this user on the database of the settings, or nil
// if none answers.
func (p *program) localGateway(ctx context.Context, settings *config.Settings) (*adminclient.Client, error) {
	if settings.Database == "" {
		return nil, nil
	}
	address, own := app.LocalGateway(settings)
	if address == "" {
		return nil, nil
	}
	if !own { // root in the folder of a user who lays out a database must not lose a token
		client := withoutToken(ctx, address)
		if client == nil {
			return nil, nil
		}
		return client, checkTokenless(ctx, client)
	}
	token, err := p.token(settings)
	if err != nil {
		return nil, err
	}
	client, err := adminclient.New(address, token, nil)
	if err != nil || !client.Alive(ctx) {
		return nil, err
	}
	return client, nil
}

// namedOrLocal returns a client of the gateway at --admin-url, or of the local one, or nil.
func (p *program) namedOrLocal(ctx context.Context, f *apiFlags, settings *config.Settings) (*adminclient.Client, error) {
	p.readAdminURL(f)
	if f.adminURL != "" {
		return p.namedGateway(f)
	}
	return p.localGateway(ctx, settings)
}

// Variables of the tokens.
const (
	adminToken = "HOOKONCE_ADMIN_TOKEN"
	readToken  = "HOOKONCE_READ_TOKEN"
)

// token returns the token for the admin API, or "". HOOKONCE_ADMIN_TOKEN and HOOKONCE_READ_TOKEN
// replace admin.token and admin.read_token when settings are read. Settings without the former drop
// the latter, which is enough here, and so do unusable settings with both.
func (p *program) token(settings *config.Settings) (string, error) {
	token := cmp.Or(string(settings.Admin.Token), p.variable(adminToken), string(settings.Admin.ReadToken), p.variable(readToken))
	path, is := strings.CutPrefix(token, "file:")
	if !is {
		return token, nil
	}
	file, err := settingfile.Read(path, maxTrustFile)
	if err != nil {
		return "", app.Errorf("the file of the admin API's token cannot be read: %w", err).
			Try("correct the path after file: in " + adminToken + " or " + readToken)
	}
	return strings.TrimSpace(string(file.Data)), nil
}

// apiOf returns the admin API in this process. A command that changes something prints warnings of
// the engine, for example about a route's condition that fails.
func (p *program) apiOf(store driver.Store, settings *config.Settings, how access) (*api, error) {
	log := p.warnings()
	engineLog := log
	if how == reads {
		engineLog = slog.New(slog.DiscardHandler)
	}
	engine, err := app.NewEngine(store, settings, engineLog, nil)
	if err != nil {
		return nil, err
	}
	handler, err := hookadmin.New(&hookadmin.Config{Store: store, Engine: engine, Ready: engine.Ready, Loopback: true, Logger: log})
	if err != nil {
		return nil, err
	}
	client := adminclient.InProcess(handler)
	client.Work = func(ctx context.Context, job string) {
		_, _ = engine.Operator().Work(ctx, job) // who follows the job sees how it ends
	}
	return &api{client, p.newProgress(), engine}, nil
}

// one returns the query for one row with this parameter.
func one(name, value string) url.Values { return url.Values{name: {value}, "limit": {"1"}} }

// sourceRemedy is the remedy for a source that the settings lack.
func (a *api) sourceRemedy() string {
	if a.engine != nil {
		return "--config with the settings of the gateway; without a running gateway, this command does not know the sources of serve --source"
	}
	return "add it to the settings of the gateway, and reload it (SIGHUP)"
}
