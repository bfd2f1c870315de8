package hookpgx

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

const (
	// wireKey is where a connection keeps its wire, in its custom data.
	wireKey = "hookonce.wire"
	// maxWire is how much memory for parameters a connection keeps between its statements.
	maxWire = 1 << 20

	// A session without a statement that it has prepared, or with one that it has not, is shared: a
	// pooler in between handed it over.
	codeNoStatement   = "26000"
	codeSameStatement = "42P05"
)

// binaryFormat is the format of all parameters or of all results.
var binaryFormat = []int16{1}

// wire is the memory of a connection for statements with encoded parameters.
type wire struct {
	params   pgstore.Parameters
	message  []byte
	prepared map[string]*pgconn.StatementDescription // by name
}

func wireOf(conn *pgconn.PgConn) *wire {
	data := conn.CustomData()
	w, ok := data[wireKey].(*wire)
	if !ok {
		w = &wire{prepared: make(map[string]*pgconn.StatementDescription)}
		data[wireKey] = w
	}
	return w
}

// room gives the frontend a buffer that is large enough for the next message, so that it does not grow one
// in small steps. It sends nothing.
type room struct{ buf []byte }

// Decode implements pgproto3.FrontendMessage.
func (room) Decode([]byte) error { return nil }

// Frontend implements pgproto3.FrontendMessage.
func (room) Frontend() {}

// Encode implements pgproto3.FrontendMessage.
func (r room) Encode(dst []byte) ([]byte, error) { return append(r.buf[:0], dst...), nil }

// makeRoom makes room for the parameters. The buffer is the connection's own: if nothing is sent, the
// frontend keeps it.
func (w *wire) makeRoom(conn *pgconn.PgConn, more int) {
	const overhead = 512 // names, formats, and the messages that follow
	size := w.params.Size() + overhead + more
	if cap(w.message) < size {
		w.message = make([]byte, 0, size+size/4)
	}
	conn.Frontend().Send(room{w.message})
}

// forget empties w, and keeps no memory of large statements.
func (w *wire) forget() {
	w.params.Forget(maxWire)
	if cap(w.message) > maxWire {
		w.message = nil
	}
}

var _ pgsession.BinarySession = (*session)(nil)

// QueryBinary implements pgsession.BinarySession. It prepares the statement once for each connection. If a
// session turns out to be shared, statements have no names from then on.
func (s *session) QueryBinary(ctx context.Context, st *pgstore.Statement, encode func(*pgstore.Parameters), row func([][]byte) error) error {
	if s.bounds != "" {
		return pgstore.ErrNotBinary
	}
	w := wireOf(s.conn.Conn().PgConn())
	defer w.forget()
	encode(&w.params)
	named := !s.link.unnamed.Load()
	err := s.runBinary(ctx, w, st, named, row)
	if named && isShared(err) {
		s.link.unnamed.Store(true)
		err = s.runBinary(ctx, w, st, false, row)
	}
	return s.confirmed(err)
}

func isShared(err error) bool {
	state := pgstore.SQLState(err)
	return state == codeNoStatement || state == codeSameStatement
}

func (s *session) runBinary(ctx context.Context, w *wire, st *pgstore.Statement, named bool, row func([][]byte) error) error {
	conn := s.conn.Conn().PgConn()
	var result *pgconn.ResultReader
	if named {
		prepared := w.prepared[st.Name]
		if prepared == nil {
			var err error
			if prepared, err = conn.Prepare(ctx, st.Name, st.SQL, nil); err != nil {
				if (client{}).Refused(err) {
					return err
				}
				return pgsession.NotSent(err)
			}
			w.prepared[st.Name] = prepared
		}
		w.makeRoom(conn, len(st.Name))
		result = conn.ExecStatement(ctx, prepared, w.params.Values(), binaryFormat, binaryFormat)
	} else {
		w.makeRoom(conn, len(st.SQL))
		result = conn.ExecParams(ctx, st.SQL, w.params.Values(), nil, binaryFormat, binaryFormat)
	}
	var bad error
	for bad == nil && result.NextRow() {
		bad = row(result.Values())
	}
	if _, err := result.Close(); err != nil {
		return err
	}
	return bad
}
