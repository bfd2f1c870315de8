package sqlitestore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWeaknesses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		synchronous int
		journal     string
		version     string
		want        []string
	}{
		{"as opened by us", 2, "wal", "3.53.0", nil},
		{"extra", 3, "WAL", "3.51.3", nil},
		{"normal", 1, "wal", "3.53.0", []string{"synchronous"}},
		{"off", 0, "wal", "4.0.0", []string{"synchronous"}},
		{"delete", 2, "delete", "3.53.0", []string{"journal_mode"}},
		{"memory and old", 2, "memory", "3.51.2", []string{"journal_mode", "sqlite_version"}},
		{"old minor", 2, "wal", "3.9.99", []string{"sqlite_version"}},
		{"next minor", 2, "wal", "3.52.0", nil},
		{"unreadable", 2, "wal", "trunk", []string{"sqlite_version"}},
		{"everything", 0, "off", "3.7.0", []string{"synchronous", "journal_mode", "sqlite_version"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, w := range weaknesses(c.synchronous, c.journal, c.version) {
				got = append(got, w.Setting)
				if w.Value == "" || w.Effect == "" || w.Remedy == "" {
					t.Errorf("%+v says too little", w)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
