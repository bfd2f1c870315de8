package sqlitestore

import (
	"database/sql"
	"reflect"
	"sync/atomic"
)

// guard keeps a handler from writing behind the end of its transaction. Where
// SQLite has undone that by itself, or it was committed by a COMMIT that was run as
// text, database/sql knows nothing of it, and each further statement would be
// committed by itself: on the next attempt it would take effect again. So from then
// on the guard turns every commit of the connection into a rollback, by the hooks
// of https://www.sqlite.org/c3ref/commit_hook.html.
//
// They are found by their names, as modernc.org/sqlite has them, because no
// interface of database/sql has them and this package imports no driver. Over one
// without them, what a handler does after it has passed over such an error is not
// undone.
type guard struct {
	over atomic.Bool // the transaction was committed or undone
}

const (
	commitHook   = "RegisterCommitHook"
	rollbackHook = "RegisterRollbackHook"
)

// watch is called when the transaction has begun.
func (g *guard) watch(conn *sql.Conn) {
	// The callback returns no error, so the only one is that the connection is
	// closed.
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

// leave is called when the transaction has ended, before the connection is used for
// anything else.
func (g *guard) leave(conn *sql.Conn) {
	_ = conn.Raw(func(driverConn any) error {
		hook(driverConn, commitHook, nil)
		hook(driverConn, rollbackHook, nil)
		return nil
	})
}

// hook calls the method of driverConn that sets a hook; nil removes it.
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
