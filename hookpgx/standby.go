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

// confirmed returns the error of a commit on h whose error so far is err. A server whose standbys do not
// confirm, or that does not answer in time, may be an old primary: if there are several hosts, the next
// connections begin with another one. Slow answers alone close no other connection, since a server that is
// only busy would then have new ones to accept.
func (h *held) confirmed(err error) error {
	conn := h.conn.Conn()
	switch {
	case err == nil && conn.PgConn().CustomData()[unconfirmedKey] != nil:
		if _, several := conn.PgConn().CustomData()[placeKey]; several {
			h.Spoil() // also if another connection has left the host before
		}
		return errUnconfirmed
	case pgconn.Timeout(err):
		h.link.leave(conn)
	}
	return err
}

// committedRows are the rows of a statement that commits by itself. The commit is over when they have
// been read to their end.
type committedRows struct {
	pgstore.Rows
	held *held
}

// Err implements pgstore.Rows.
func (r committedRows) Err() error { return r.held.confirmed(r.Rows.Err()) }
