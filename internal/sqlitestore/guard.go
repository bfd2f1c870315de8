package sqlitestore

import (
	"database/sql"
	"reflect"
	"sync/atomic"
)

// guard keeps a handler from writing after the end of its transaction. SQLite may have undone the
// transaction, or a handler may have sent COMMIT as text. database/sql does not know, and SQLite
// would commit each further statement by itself, so that it would take effect again on the next
// attempt. From then on the guard turns every commit of the connection into a rollback, with the
// hooks of https://www.sqlite.org/c3ref/commit_hook.html.
//
// It finds the hooks by the names that modernc.org/sqlite gives them, because database/sql has no
// interface for them and this package imports no driver. With a driver that has no such hooks,
// writes of a handler that ignored such an error are not undone.
type guard struct {
	over atomic.Bool // the transaction was committed or undone
}

const (
	commitHook   = "RegisterCommitHook"
	rollbackHook = "RegisterRollbackHook"
)

// watch must be called right after the transaction has begun.
func (g *guard) watch(conn *sql.Conn) {
	// The callback returns no error, so an error only means that the connection is closed.
	_ = conn.Raw(func(driverConn any) error {
		hook(driverConn, commitHook, func() int32 {
			if g.over.Swap(true) {
				return 1
			}
			return 0
		})
		hook(driverConn, rollbackHook, func() { g.over.Store(true) })
		return nil
	})
}

// leave must be called after the transaction has ended and before the connection is used again.
func (g *guard) leave(conn *sql.Conn) {
	_ = conn.Raw(func(driverConn any) error {
		hook(driverConn, commitHook, nil)
		hook(driverConn, rollbackHook, nil)
		return nil
	})
}

// hook calls the method of driverConn that sets a hook. A nil callback removes it.
func hook(driverConn any, method string, callback any) {
	set := reflect.ValueOf(driverConn).MethodByName(method)
	if !set.IsValid() || set.Type().NumIn() != 1 {
		return
	}
	into := set.Type().In(0)
	value := reflect.Zero(into)
	if callback != nil {
		value = reflect.ValueOf(callback)
		if !value.CanConvert(into) {
			return
		}
	}
	set.Call([]reflect.Value{value.Convert(into)})
}
