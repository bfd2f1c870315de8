package hookpgx

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// standbyWait is the server's function that waits for the synchronous standbys at a commit. If
// that wait is cancelled the commit succeeds, on the primary alone, and the server only sends a
// warning. The warning names this function; its text may be translated.
const standbyWait = "SyncRepWaitForLSN"

// unconfirmedKey marks a connection that got such a warning, in its custom data.
const unconfirmedKey = "hookonce.unconfirmed"

// errUnconfirmed is the error of a commit that may be on the primary alone. Its outcome is unknown,
// because a failover would lose it.
var errUnconfirmed = errors.New("the server stopped waiting for its synchronous standbys: a failover would lose the commit")

// WatchCommits makes a store notice that the server cancelled a commit's wait for its synchronous
// standbys, on the connections of config. Such a commit counts as unknown. The store's own pools do
// it anyway. Call WatchCommits before you make the pool that New gets, so that the runs of handlers
// and the messages are watched too.
func WatchCommits(config *pgx.ConnConfig) {
	next := config.OnNotice
	config.OnNotice = func(conn *pgconn.PgConn, notice *pgconn.Notice) {
		if notice.Routine == standbyWait {
			conn.CustomData()[unconfirmedKey] = true
		}
		if next != nil {
			next(conn, notice)
		}
	}
}

// forget removes the mark of an earlier commit from conn.
func forget(conn *pgx.Conn) { delete(conn.PgConn().CustomData(), unconfirmedKey) }

// confirmed returns the error of a commit on conn whose error so far is err.
func confirmed(conn *pgx.Conn, err error) error {
	if err == nil && conn.PgConn().CustomData()[unconfirmedKey] != nil {
		return errUnconfirmed
	}
	return err
}

// committedRows are the rows of a statement that commits by itself. The commit is over when they have
// been read to their end.
type committedRows struct {
	pgstore.Rows
	conn *pgx.Conn
}

// Err implements pgstore.Rows.
func (r committedRows) Err() error { return confirmed(r.conn, r.Rows.Err()) }
