package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"sync/atomic"
)

// guard keeps a handler from writing after the end of its transaction. SQLite may have undone the
// transaction, or a handler may have sent COMMIT as text. database/sql does not know, and SQLite
// would commit each further statement by itself, so that it would take effect again on the next
// attempt. From then on the guard turns every commit of the connection into a rollback, with the
// hooks of https://www.sqlite.org/c3ref/commit_hook.html.
//
// It finds the hooks by the names that drivers give them, because database/sql has no interface for
// them and this package imports no driver. A store refuses handlers on a driver without hooks.
type guard struct {
	over atomic.Bool // the transaction was committed or undone
}

// The names of the hooks: of modernc.org/sqlite and github.com/mattn/go-sqlite3, and of
// github.com/ncruces/go-sqlite3.
var (
	commitHooks   = []string{"RegisterCommitHook", "CommitHook"}
	rollbackHooks = []string{"RegisterRollbackHook", "RollbackHook"}
)

var errNoHooks = errors.New("handlers need an SQLite driver with commit and rollback hooks, and this one has none: " +
	"without them hookonce could not keep a handler from writing after the end of its transaction; use modernc.org/sqlite")

// watch must be called right after the transaction has begun.
func (g *guard) watch(conn *sql.Conn) error {
	return conn.Raw(func(driverConn any) error {
		commit, undo := hookOf(driverConn, commitHooks), hookOf(driverConn, rollbackHooks)
		if !commit.IsValid() || !undo.IsValid() {
			return errNoHooks
		}
		set(commit, func() bool { return !g.over.Swap(true) })
		set(undo, func() bool {
			g.over.Store(true)
			return true
		})
		return nil
	})
}

// leave must be called after the transaction has ended and before the connection is used again.
func (g *guard) leave(conn *sql.Conn) {
	// The callback returns no error, so an error only means that the connection is closed.
	_ = conn.Raw(func(driverConn any) error {
		for _, names := range [][]string{commitHooks, rollbackHooks} {
			if hook := hookOf(driverConn, names); hook.IsValid() {
				hook.Call([]reflect.Value{reflect.Zero(hook.Type().In(0))})
			}
		}
		return nil
	})
}

// CheckHandlers returns an error if the database driver cannot keep a handler's writes in its
// transaction, as far as that can be told now: nil too if no connection can be had before ctx ends.
func (s *Store) CheckHandlers(ctx context.Context) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return nil //nolint:nilerr // Take reports it
	}
	defer conn.Close()
	return conn.Raw(func(driverConn any) error {
		if !hookOf(driverConn, commitHooks).IsValid() || !hookOf(driverConn, rollbackHooks).IsValid() {
			return errNoHooks
		}
		return nil
	})
}

// hookOf returns the first of the methods of driverConn that sets a hook; invalid if it has none.
func hookOf(driverConn any, names []string) reflect.Value {
	for _, name := range names {
		method := reflect.ValueOf(driverConn).MethodByName(name)
		if method.IsValid() && isHook(method.Type()) {
			return method
		}
	}
	return reflect.Value{}
}

// isHook reports whether a method takes a callback without arguments that returns nothing, an
// integer (not 0 turns a commit into a rollback) or a bool (false does so).
func isHook(method reflect.Type) bool {
	if method.NumIn() != 1 || method.In(0).Kind() != reflect.Func {
		return false
	}
	callback := method.In(0)
	if callback.NumIn() != 0 || callback.NumOut() > 1 {
		return false
	}
	return callback.NumOut() == 0 || callback.Out(0).Kind() == reflect.Bool || isInt(callback.Out(0))
}

func isInt(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64 }

// set sets a hook. callback reports whether the transaction may be committed.
func set(hook reflect.Value, callback func() bool) {
	into := hook.Type().In(0)
	hook.Call([]reflect.Value{reflect.MakeFunc(into, func([]reflect.Value) []reflect.Value {
		allowed := callback()
		if into.NumOut() == 0 {
			return nil
		}
		result := reflect.New(into.Out(0)).Elem()
		switch {
		case result.Kind() == reflect.Bool:
			result.SetBool(allowed)
		case !allowed:
			result.SetInt(1)
		}
		return []reflect.Value{result}
	})})
}
