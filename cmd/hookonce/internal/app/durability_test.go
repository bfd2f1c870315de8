package app

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	weak := []driver.Weakness{
		{Setting: "fsync", Value: "off", Effect: "A power cut loses commits.", Remedy: "Set fsync=on."},
		{Setting: "synchronous_commit", Value: "local", Effect: "A failover loses commits.", Remedy: "Set it to on."},
	}
	tests := []struct {
		name      string
		found     []driver.Weakness
		allowed   []string
		hint      string // "" for no error
		warnings  int
		inMessage []string
	}{
		{name: "none"},
		{name: "none, one allowed", allowed: []string{"fsync"}},
		{
			name: "all refused", found: weak, hint: "allow_unsafe: [fsync, synchronous_commit]",
			inMessage: []string{"fsync is off", "A power cut loses commits.", "Set fsync=on.", "synchronous_commit is local"},
		},
		{
			name: "one allowed", found: weak, allowed: []string{"fsync"}, hint: "allow_unsafe: [synchronous_commit]",
			warnings: 1, inMessage: []string{"synchronous_commit is local"},
		},
		{name: "all allowed", found: weak, allowed: []string{"synchronous_commit", "fsync"}, warnings: 2},
		{name: "no pattern", found: weak[:1], allowed: []string{"*", "FSYNC", ""}, hint: "allow_unsafe: [fsync]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := &logBuffer{changed: make(chan struct{}, 1)}
			err := judge(tt.found, tt.allowed, slog.New(slog.NewTextHandler(log, nil)))
			if got := strings.Count(log.text(), "level=WARN"); got != tt.warnings {
				t.Errorf("%d warnings, want %d:\n%s", got, tt.warnings, log.text())
			}
			if tt.hint == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantHint(t, err, "may lose acknowledged events", tt.hint)
			for _, text := range tt.inMessage {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error %q, want %q in it", err, text)
				}
			}
		})
	}
}

func TestSharedFileSystemsAreRefused(t *testing.T) {
	t.Parallel()
	wantHint(t, judgeFileSystem("/mnt/x.db", "NFS", []string{"fsync"}), "/mnt/x.db is on a file system that other machines may share (NFS)",
		"allow_unsafe: [shared_filesystem]")
	if err := judgeFileSystem("/mnt/x.db", "NFS", []string{"shared_filesystem"}); err != nil {
		t.Error(err)
	}
	if err := judgeFileSystem("/var/x.db", "", nil); err != nil {
		t.Error(err)
	}
	if _, err := sharedFileSystem(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing folder has a file system")
	}
}
