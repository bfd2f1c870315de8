package driver

import (
	"context"
	"time"
)

// Meter is the part of a store that metrics need.
type Meter interface {
	// Backlog measures waiting and stuck work by name. Its cost depends on the numbers of names and
	// on p.Limit, and not on the size of the backlog.
	Backlog(ctx context.Context, p *BacklogParams) (*Backlog, error)
	// Pool returns the present state of the store's connections.
	Pool() Pool
}

// BacklogParams are the parameters of Store.Backlog.
type BacklogParams struct {
	Sources, Destinations []string // without repetition
	Limit                 int      // the most rows that are counted for each number; at least 1
}

// Backlog is the work that waits, by name. Every name of the parameters is in it.
type Backlog struct {
	At           time.Time          // by the database's clock
	Bytes        int64              // size of the store's tables and indexes, or of its file
	LogBytes     int64              // size of SQLite's write-ahead log; 0 on PostgreSQL
	Sources      map[string]Waiting // events that wait for a handler or an SQL consumer
	Destinations map[string]Waiting // messages
}

// Waiting is the work of one name. The numbers stop at BacklogParams.Limit.
type Waiting struct {
	Open        int64     // pending events, or messages that are pending or being sent
	OldestDueAt time.Time // earliest due time of them, which may lie ahead; zero without one
	Dead        int64     // events that are dead themselves, or dead messages
	HeldLines   int64     // lines that wait at a dead letter, see Order.Hold; those of a source are of its handlers
}

// Pool is the number of connections of a store, of all its pools together.
type Pool struct {
	InUse, Idle int
	Max         int // 0 means no limit
}
