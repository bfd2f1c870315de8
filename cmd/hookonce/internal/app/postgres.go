package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/settingfile"
)

// CheckPostgres refuses a PostgreSQL URL that the driver cannot parse. It does not connect. The
// error is an *Error that never quotes the URL.
func CheckPostgres(url string) error {
	_, err := parsePostgres(url)
	return err
}

// postgresFiles are the parameters of a URL that name a file, with the variables for them.
var postgresFiles = map[string]string{
	"sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "passfile": "PGPASSFILE", "servicefile": "PGSERVICEFILE",
}

// maxPostgresFile bounds the size of such a file, in bytes.
const maxPostgresFile = 1 << 20

// checkPostgresFiles refuses files that the driver would wait for, or read without an end. It leaves missing ones, and
// those that this user may not read, to the driver, which can do without some.
func checkPostgresFiles(database string) error {
	server, raw, _ := strings.Cut(database, "?")
	query, _ := url.ParseQuery(raw)
	_, authority, _ := strings.Cut(server, "://")
	user, _, named := strings.Cut(authority, "@")
	_, password, _ := strings.Cut(user, ":")
	if !named {
		password = "" // user is the host and its port
	}
	password = cmp.Or(password, query.Get("password"), os.Getenv("PGPASSWORD"))
	service := cmp.Or(query.Get("service"), os.Getenv("PGSERVICE"))
	for _, name := range slices.Sorted(maps.Keys(postgresFiles)) {
		path := cmp.Or(query.Get(name), os.Getenv(postgresFiles[name]))
		switch {
		case path == "":
			continue
		case name == "passfile" && (password != "" || path == os.DevNull): // the usual way to have none
			continue
		case name == "servicefile" && service == "":
			continue
		}
		_, err := settingfile.Read(path, maxPostgresFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return Errorf("the file of %s cannot be read: %w", name, err).
				Try("correct the path in the setting database, or in " + postgresFiles[name])
		}
	}
	return nil
}

func parsePostgres(database string) (*pgxpool.Config, error) {
	for _, check := range []func(string) error{checkSpelling, checkRepeated, checkWritable, checkPostgresFiles} {
		if err := check(database); err != nil {
			return nil, err
		}
	}
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		if name := wrongParameter(database); name != "" {
			return nil, Errorf("its parameter %s has a value that cannot be used", name).
				Try(cmp.Or(parameterValues[name], "correct it, or leave it out"))
		}
		// The driver's error may quote a part of the password if that part cannot be parsed.
		return nil, Errorf("it is not a PostgreSQL URL that can be used").
			Try("postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require, with other characters of USER and PASSWORD percent-encoded")
	}
	return cfg, readKeywords(cfg)
}

func openPostgres(_ context.Context, settings *config.Settings) (driver.Store, error) {
	cfg, err := parsePostgres(settings.Database)
	if err != nil {
		return nil, fmt.Errorf("the setting database: %w", err)
	}
	cfg.BeforeConnect = (&credentials{settings: settings}).beforeConnect
	hookpgx.WatchCommits(cfg.ConnConfig)
	store, err := hookpgx.Open(cfg, &hookpgx.Options{Schema: settings.Schema})
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return store, nil
}
