package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// clause builds a WHERE clause and its arguments.
type clause struct {
	all  []string
	args []any
}

func (c *clause) add(condition string, args ...any) {
	c.all = append(c.all, condition)
	c.args = append(c.args, args...)
}

// equal adds the condition that column is value, unless value is "".
func (c *clause) equal(column, value string) {
	if value != "" {
		c.add(column+` = ?`, value)
	}
}

// text adds the condition of EventFilter.Text.
func (c *clause) text(table, text string) {
	if text != "" {
		c.add(fmt.Sprintf(`(instr(%[1]sevent_id, ?) > 0 OR instr(%[1]stype, ?) > 0 OR instr(%[1]sbody, ?) > 0)`, table),
			text, text, []byte(text))
	}
}

// received adds the conditions of since and until.
func (c *clause) received(column string, since, until time.Time) {
	if !since.IsZero() {
		c.add(column+` >= ?`, ceilMicros(since))
	}
	if !until.IsZero() {
		c.add(column+` < ?`, ceilMicros(until))
	}
}

func (c *clause) where() string {
	if len(c.all) == 0 {
		return ""
	}
	return ` WHERE ` + strings.Join(c.all, ` AND `)
}

// listed returns the rows of a page, and one more if there is a next page. The last argument of query is the
// number of rows. It reads for at most 5 s.
func listed[T any](ctx context.Context, s *Store, op, query string, args []any, limit int, scan func(*T, *sql.Rows) error) (all []T, err error) {
	err = s.snapshot(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, append(args, driver.PageSize(limit)+1)...)
		all, err = collect(rows, err, func(one *T) error { return scan(one, rows) })
		return err
	})
	return all, err
}

// snapshot runs read in one transaction on a reader, so that it sees one state of the database. The
// transaction ends after at most 5 s, even if ctx lasts longer. It may wait at the gate first.
func (s *Store) snapshot(ctx context.Context, op string, read func(ctx context.Context, tx *sql.Tx) error) error {
	if err := s.readers.enter(ctx); err != nil {
		return fmt.Errorf("%s: waiting for the log to be cut: %w: %w", op, driver.ErrUnavailable, err)
	}
	defer s.readers.leave()
	return s.read(ctx, op, read)
}

func (s *Store) read(ctx context.Context, op string, read func(ctx context.Context, tx *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.failed(ctx, op, err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if err := read(ctx, tx); err != nil {
		_ = tx.Rollback() // first, because classifying the error may look at the schema
		return s.failed(ctx, op, err)
	}
	return nil
}
