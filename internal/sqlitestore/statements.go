package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"sync"
)

// statements are the prepared statements of write transactions, so that a batch does not pay for parsing. A statement is
// prepared once a transaction has run it: a command that writes once would pay for all the others.
type statements struct {
	mu       sync.Mutex
	prepared map[string]*sql.Stmt // by their texts; replaced and not changed
	wanted   []string
}

// want says that a transaction has run a statement that was not prepared.
func (s *statements) want(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = append(s.wanted, text)
}

// take returns the prepared statements, and those to prepare.
func (s *statements) take() (prepared map[string]*sql.Stmt, wanted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, s.wanted = s.wanted, nil
	return s.prepared, wanted
}

// add adds a prepared statement, unless another call was first. It returns all.
func (s *statements) add(text string, stmt *sql.Stmt) map[string]*sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prepared[text] != nil {
		_ = stmt.Close() // the other one does the same
		return s.prepared
	}
	all := make(map[string]*sql.Stmt, len(s.prepared)+1)
	maps.Copy(all, s.prepared)
	all[text] = stmt
	s.prepared = all
	return all
}

func (s *statements) close() error {
	var all []error
	prepared, _ := s.take()
	for _, stmt := range prepared {
		all = append(all, stmt.Close())
	}
	return errors.Join(all...)
}

// statements returns the prepared statements of write transactions by their texts. Before, it prepares those that were run
// since the last call, for which it waits for the writer's connection.
func (s *Store) statements(ctx context.Context) map[string]*sql.Stmt {
	prepared, wanted := s.stmts.take()
	for _, text := range wanted {
		if prepared[text] != nil {
			continue
		}
		stmt, err := s.writer.PrepareContext(ctx, text)
		if err != nil {
			return prepared // the transaction meets the same error, and says so
		}
		prepared = s.stmts.add(text, stmt)
	}
	return prepared
}
