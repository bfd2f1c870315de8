package sqlitestore

import (
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

// eachRow does something for each of some rows, in a transaction. It returns the rows that are done, and the refusal of
// one that the database refused to change.
type eachRow[T any] func(t *writeTx, rows []T, do func(*T) error) (done []T, refusal, err error)

// inOrder ends at the first row that fails.
func inOrder[T any](_ *writeTx, rows []T, do func(*T) error) (done []T, refusal, err error) {
	for i := range rows {
		if err := do(&rows[i]); err != nil {
			return nil, nil, err
		}
	}
	return rows, nil, nil
}

// passOver leaves out rows that the database refuses to change, by a trigger of its owner for example. It undoes the
// changes of do for them.
func passOver[T any](t *writeTx, rows []T, do func(*T) error) (done []T, refusal, err error) {
	for i := range rows {
		switch err := t.whole(func() error { return do(&rows[i]) }); {
		case err == nil:
			done = append(done, rows[i])
		case !isOfRow(err):
			return nil, nil, err
		default:
			refusal = err
		}
	}
	return done, refusal, nil
}

// whole runs do, and undoes its changes if it fails.
func (t *writeTx) whole(do func() error) error {
	if _, err := t.exec(`SAVEPOINT hookonce_row`); err != nil {
		return err
	}
	err := do()
	if err != nil {
		if _, ended := t.exec(`ROLLBACK TO hookonce_row`); ended != nil {
			if !isOfRow(err) {
				return err // SQLite ends the transaction itself, as of a full disk
			}
			return endedError(ended)
		}
	}
	if _, ended := t.exec(`RELEASE hookonce_row`); ended != nil {
		return endedError(ended)
	}
	return err
}

// endedError says that a trigger has ended the transaction. It has no result code: no row can be passed over then.
func endedError(err error) error {
	return fmt.Errorf("%w: a trigger has ended the transaction: %v", driver.ErrUnavailable, err)
}
