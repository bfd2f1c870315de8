package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestListenKeys: on a terminal the last copy is sent again, edited and saved.
func TestListenKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startSources(t, dir)
	r, url := newRecorder(t, 200)
	editor := filepath.Join(dir, "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\necho EDITING\nread -r line\nprintf '{\"edited\":\"%s\"}' \"$line\" > \"$1\"\necho \"$1\" > "+dir+"/edited\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := startSession(t, dir, 60, []string{"EDITOR=" + editor, "VISUAL=", "TMPDIR=" + t.TempDir()}, "listen", "--source", "gh", "--secret", "a-secret-of-my-own-here", url)
	s.wants(t, "Connected. 0 stored")
	s.wants(t, "q quit")
	s.press(t, "rse") // nothing was copied
	g.deliver(t, "d1")
	s.wants(t, `Z d1 issues → 200 \(`)
	s.wants(t, "r resend · e edit and resend · s save · q quit")
	s.press(t, "r")
	s.wants(t, `Z d1 issues → 200 \(`)
	s.press(t, "s")
	s.wants(t, `Saved the body in d1.json\.`)
	s.press(t, "s")
	s.wants(t, `Saved the body in d1-2.json\.`)
	s.press(t, "e")
	s.wants(t, "EDITING")
	s.press(t, "by hand\n")
	s.wants(t, `Z d1 issues → 200 \(`)
	s.press(t, "q")
	s.ends(t, 0)
	bodies, headers := r.got()
	if diff := cmp.Diff([]string{`{"action":"opened"}`, `{"action":"opened"}`, `{"edited":"by hand"}`}, bodies); diff != "" {
		t.Fatalf("the copies are (-want +got):\n%s", diff)
	}
	writeFile(t, filepath.Join(dir, "body"), bodies[2])
	if _, stderr, code := run(t, dir, "verify", "--provider", "github", "--secret", "a-secret-of-my-own-here", "--body", "body", "-H",
		"X-Hub-Signature-256: "+headers[2].Get("X-Hub-Signature-256"), "-H", "X-GitHub-Delivery: d1", "-H", "X-GitHub-Event: issues"); code != 0 {
		t.Errorf("the edited copy is not signed: %s", stderr)
	}
	for _, name := range []string{"d1.json", "d1-2.json"} {
		if saved, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(saved) != bodies[0] {
			t.Errorf("%s holds %q, %v", name, saved, err)
		}
	}
	edited, err := os.ReadFile(filepath.Join(dir, "edited"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(strings.TrimSpace(string(edited))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the edited file is left: %v", err)
	}
}

// TestListenIsInterrupted: Ctrl-C and signals end a listener at any stage, and leave the terminal as it was.
func TestListenIsInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startSources(t, dir)
	hang, url := startHanging(t)
	editor := filepath.Join(dir, "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\necho EDITING\nread -r line\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, stop := range map[string]func(*session){
		"Ctrl-C":  func(s *session) { s.press(t, "\x03") },
		"SIGTERM": func(s *session) { _ = s.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		waiting := startSession(t, dir, 80, []string{"NO_COLOR=1"}, "listen", url)
		waiting.wants(t, "q quit")
		stop(waiting)
		waiting.ends(t, 0)
		sending := startSession(t, dir, 80, []string{"NO_COLOR=1"}, "listen", url)
		sending.wants(t, "q quit")
		g.deliver(t, name)
		sending.wants(t, "Sending "+name)
		<-hang
		stop(sending)
		sending.ends(t, 0)
		if strings.Contains(sending.shown(), "\x1b[2m") {
			t.Error("NO_COLOR is ignored")
		}
		folder := t.TempDir()
		editing := startSession(t, dir, 80, []string{"VISUAL=" + editor, "TMPDIR=" + folder}, "listen", "--since", "1h", "--timeout", "1ms", url)
		editing.wants(t, "no answer")
		editing.press(t, "e")
		editing.wants(t, "EDITING")
		stop(editing)
		editing.ends(t, 0)
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v, %v", name, left, err)
		}
	}
}
