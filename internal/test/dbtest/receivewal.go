package dbtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// ReceiveLog receives the server's log as a synchronous standby of this name does, until the test ends.
func (s *Server) ReceiveLog(t testing.TB, name string) {
	t.Helper()
	cmd := s.command("pg_receivewal", "--synchronous", "--no-loop", "--directory="+s.folder, "--dbname="+s.DSN()+"&application_name="+name)
	if err := startChild(cmd); err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually.True(t, "the standby "+name+" receives the log", func() bool {
		conn, err := pgx.Connect(t.Context(), s.DSN())
		if err != nil {
			t.Fatalf("dbtest: %v", err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		there := false
		if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND application_name = $1)",
			name).Scan(&there); err != nil {
			t.Fatalf("dbtest: %v", err)
		}
		return there
	})
}
