// Package orm runs the handlers of docs/orms.md: each writes with another ORM in the transaction of the
// handler. It is a module of its own, so that hookonce depends on none of them.
package orm
