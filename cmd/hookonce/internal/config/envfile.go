package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/internal/settingfile"
)

// maxEnvFile bounds the size of the file that env_file names, in bytes.
const maxEnvFile = 1 << 20

// readEnvFile adds the variables of the file that env_file names to those of the environment, and lets
// them win: the environment of a process stays as it was at its start. A file that is not there adds
// nothing, because containers and services may get their variables another way; missing then holds its
// path, for the fault of a variable that is not set.
func (l *loader) readEnvFile(n *node) {
	path := l.word(n)
	if path == "" {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(l.file), path)
	}
	l.envFile = path
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.dir, path)
	}
	file, err := settingfile.Read(path, maxEnvFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.Is(err, fs.ErrPermission):
		l.faultHint(n, "the user of the gateway must be able to read it, also for a reload: chgrp hookonce FILE && chmod 0640 FILE",
			"the file %s cannot be read: %s", l.envFile, err)
		return
	case err != nil:
		l.fault(n, "the file %s cannot be read: %s", l.envFile, err)
		return
	}
	l.warnShared(n, file, l.envFile, true)
	text := strings.TrimPrefix(string(file.Data), "\ufeff")
	if strings.ContainsRune(text, 0) || strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		l.faultHint(n, "save it as UTF-8", "the file %s is in UTF-16, or holds NUL bytes", l.envFile)
		return
	}
	for i, line := range strings.Split(text, "\n") {
		name, value, problem := envLine(strings.TrimSpace(line))
		switch {
		case problem != "":
			l.fault(n, "%s:%d: %s", l.envFile, i+1, problem)
		case name != "":
			l.env[name] = value
			l.fromFile[name] = true
		}
	}
}

// envLine reads a line NAME=VALUE. It refuses values that a shell, systemd or a container engine would
// read in another way, so that the same file works with all of them. problem never quotes the value.
func envLine(line string) (name, value, problem string) {
	if line == "" || line[0] == '#' {
		return "", "", ""
	}
	name, value, found := strings.Cut(strings.TrimPrefix(line, "export "), "=")
	if !found || !validVariable(name) {
		return "", "", "this is not NAME=VALUE"
	}
	const quote = "put the value between single quotes"
	switch {
	case value == "":
		return name, "", ""
	case value[0] == '\'' || value[0] == '"':
		inner, closed := strings.CutSuffix(value[1:], value[:1])
		if len(value) < 2 || !closed || strings.Contains(inner, value[:1]) {
			return "", "", "the quote " + value[:1] + " does not end at the end of the line"
		}
		if value[0] == '"' && strings.ContainsAny(inner, "$`\\") {
			return "", "", "a shell changes the value between double quotes; " + quote
		}
		return name, inner, ""
	case strings.ContainsAny(value, " \t'\"\\$`#;&|<>()"):
		return "", "", "a shell reads this value in another way; " + quote
	}
	return name, value, ""
}

// fromEnvironment returns the variables that the file names and that come from the environment of the
// process, sorted.
func (l *loader) fromEnvironment() []string {
	var names []string
	for name := range l.used {
		if l.env[name] != "" && !l.fromFile[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
