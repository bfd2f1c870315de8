package pgstore

import (
	"context"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

// oldestServer is the first version that has all functions of the schema, as server_version_num.
const oldestServer = 130000

const serverSQL = `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
	current_setting('server_encoding'), current_setting('client_encoding')`

// checkServer refuses a server that this program cannot work with, and a pool of the caller that would garble texts. The
// error is a *driver.ServerError.
func (s *Store) checkServer(ctx context.Context) error {
	if err := checkSessions(ctx, s.pools.Admin); err != nil || s.workBinary != nil {
		return err
	}
	return checkSessions(ctx, s.pools.Work)
}

func checkSessions(ctx context.Context, db DB) error {
	var number int32
	var version, server, client string
	err := read(ctx, db, "reading the version of the server", func(r Rows) error {
		return r.Scan(&number, &version, &server, &client)
	}, serverSQL)
	switch {
	case err != nil:
		return err
	case number < oldestServer:
		return &driver.ServerError{
			Found:  fmt.Sprintf("the server is PostgreSQL %s, and hookonce needs %d or newer", version, oldestServer/10000),
			Remedy: "upgrade the server, or use another one",
		}
	case !keepsUTF8(server):
		return &driver.ServerError{
			Found:  fmt.Sprintf("the database has the encoding %s, and hookonce needs UTF8", server),
			Remedy: "create a database with TEMPLATE template0 ENCODING 'UTF8', and name it in the setting database",
		}
	case !keepsUTF8(client):
		return &driver.ServerError{
			Found:  fmt.Sprintf("client_encoding of the pool is %s, and hookonce needs UTF8", client),
			Remedy: "set client_encoding=UTF8 in the DSN of the pool",
		}
	}
	return nil
}

// keepsUTF8 reports whether a text in UTF-8 stays as it is in an encoding. SQL_ASCII converts nothing.
func keepsUTF8(encoding string) bool { return encoding == "UTF8" || encoding == "SQL_ASCII" }
