package sqltest

import "testing"

const (
	planRows  = 30_000
	planDue   = 10_000
	planTried = 2_000
	// planBound is how many rows a statement may read: far more than it should, and far fewer than
	// there are.
	planBound = 500
)

var planTables = []string{"event", "event_state", "message", "run"}

// TestPlans runs the functions on large tables and counts the rows that they read: no more than
// they need, with and without statistics of the tables.
func TestPlans(t *testing.T) {
	t.Parallel()
	w := openNew(t)
	const fill = `WITH filled AS (
			INSERT INTO hookonce.event (key, source, event_id, type, headers, body, body_sha256, work, received_at)
			SELECT sha256(convert_to(concat($1::text, $3::int, $4::int, n), 'UTF8')), $1::text, concat($1::text, $3::int, $4::int, n),
				'thing', '{}', 'body', sha256('body'), 1, now() - n * interval '1 millisecond'
			FROM generate_series(1, $2::int) n
			RETURNING key, source, type, received_at
		)
		INSERT INTO hookonce.event_state (key, source, type, state, attempts, due_at)
		SELECT key, source, type, $3, $4, received_at FROM filled`
	// This session planned while the tables were almost empty, and keeps its plan.
	w.put(t, "shop", "first")
	for _, table := range planTables {
		w.exec(t, "VACUUM ANALYZE hookonce."+table)
	}
	early := w.connect(t)
	for range 7 {
		early.reads(t, true, 1, "SELECT hookonce.take('shop', 10)")
	}
	w.exec(t, fill, "other", planRows, 0, 0)
	w.exec(t, fill, "shop", planRows, 2, 1)
	w.exec(t, fill, "shop", planDue, 0, 0)
	w.exec(t, fill, "shop", planTried, 0, 2)
	w.exec(t, fill, "shop", 30, 3, 20)
	w.put(t, "shop", "known", "dead")
	w.exec(t, "UPDATE hookonce.event_state SET state = 3 WHERE key = $1", key("shop", "dead"))
	w.exec(t, `INSERT INTO hookonce.run SELECT 1, array_agg(key), now() FROM (
		SELECT key FROM hookonce.event_state WHERE source = 'other' LIMIT 200) k`)
	early.reads(t, false, 100, "SELECT hookonce.take('shop', 100)")
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			for _, table := range planTables {
				w.exec(t, "VACUUM ANALYZE hookonce."+table)
			}
		}
		s := w.connect(t)
		for range 7 { // more executions than get a plan of their own
			s.reads(t, analyzed, 10, "SELECT hookonce.take('shop', 10)")
		}
		s.reads(t, analyzed, 100, "SELECT hookonce.take('shop', 100)")
		s.reads(t, analyzed, 10, "SELECT hookonce.take('shop', 10, ARRAY['th*', 'other'])")
		s.readsDueOnce(t, "SELECT hookonce.take('shop', 10, ARRAY['refund', 'refund.*'])")
		s.reads(t, analyzed, 0, "SELECT hookonce.take('nobody', 100)")
		s.reads(t, analyzed, 1, "SELECT hookonce.fail('shop', 'known', 'x')")
		s.reads(t, analyzed, 1, "SELECT hookonce.enqueue('crm', 'x', source => 'shop', event_id => 'known')")
		s.reads(t, analyzed, 31, "SELECT source, state, last_error FROM hookonce.dead_letters")
		s.reads(t, analyzed, 50, `SELECT state, note, last_error FROM hookonce.event_overview
			ORDER BY received_at DESC, key DESC LIMIT 50`)
	}
}

// readsDueOnce checks that a statement that no due event fits reads each due event once, and locks none.
func (s *session) readsDueOnce(t *testing.T, sql string) {
	t.Helper()
	s.run(t, "BEGIN")
	before := s.rowsRead(t)
	tag, err := s.Exec(t.Context(), s.w.text(sql))
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	const due, most = planDue + planTried, planDue + planTried + planBound
	var free int
	if err := s.w.connect(t).QueryRow(t.Context(), s.w.text(`SELECT count(*) FROM (
		SELECT FROM hookonce.event_state WHERE source = 'shop' AND state = 0 FOR UPDATE SKIP LOCKED) s`)).Scan(&free); err != nil {
		t.Fatal(err)
	}
	if free < due {
		t.Errorf("%s: %d due events are not locked, want all %d", sql, free, due)
	}
	if read := s.rowsRead(t) - before; tag.RowsAffected() != 0 || read < due || read > most {
		t.Errorf("%s: %d rows of %d read, want none of %d to %d", sql, tag.RowsAffected(), read, due, most)
	}
	s.run(t, "ROLLBACK")
}

// reads checks how many rows a statement returns, and that it reads few more.
func (s *session) reads(t *testing.T, analyzed bool, rows int64, sql string) {
	t.Helper()
	s.run(t, "BEGIN")
	before := s.rowsRead(t)
	tag, err := s.Exec(t.Context(), s.w.text(sql))
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if tag.RowsAffected() != rows {
		t.Errorf("%s: %d rows, want %d", sql, tag.RowsAffected(), rows)
	}
	if read := s.rowsRead(t) - before; read < rows || read > planBound {
		t.Errorf("%s reads %d rows, want at most %d; analyzed: %v", sql, read, planBound, analyzed)
	}
	s.run(t, "ROLLBACK")
}

// rowsRead returns how many rows this session has read from the schema's tables. The count may
// restart between transactions.
func (s *session) rowsRead(t *testing.T) (n int64) {
	t.Helper()
	if err := s.QueryRow(t.Context(), `SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_all_tables
		WHERE relid IN (SELECT oid FROM pg_class WHERE relnamespace = $1::regnamespace)`, s.w.schema).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
