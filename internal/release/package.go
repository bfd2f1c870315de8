package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/rpmpack"
)

const (
	maintainer  = "hookonce <hookonce@users.noreply.github.com>"
	homepage    = "https://github.com/hookonce/hookonce"
	summary     = "gateway that receives webhooks, so that each event takes effect once"
	description = `Senders deliver webhooks at least once. hookonce verifies each delivery,
claims the id of its event in SQLite or PostgreSQL, commits, and answers.
Then it forwards the event with retries under one stable id. Events that
fail become dead letters, which can be replayed.`
)

// packageVersion returns the version for deb and rpm. In both, ~ is before everything: 1.2.3~rc.1 is older than 1.2.3.
func (r *release) packageVersion() string { return strings.Replace(r.version[1:], "-", "~", 1) }

// packages writes a deb and an rpm.
func (b *build) packages(t target, program, notices []byte) error {
	entries, err := b.installed(program, notices)
	if err != nil {
		return err
	}
	return errors.Join(b.deb(t, entries), b.rpm(t, entries))
}

// installed returns the files that both packages install.
func (b *build) installed(program, notices []byte) ([]entry, error) {
	entries := []entry{
		{name: "usr/bin/hookonce", mode: 0o755, data: program},
		{name: "usr/share/bash-completion/completions/hookonce", mode: 0o644, data: b.completions["bash"]},
		{name: "usr/share/fish/vendor_completions.d/hookonce.fish", mode: 0o644, data: b.completions["fish"]},
	}
	for _, page := range b.manuals {
		data, err := gzipped(page.data, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: "usr/share/man/man1/" + page.name + ".gz", mode: 0o644, data: data})
	}
	data, err := gzipped(notices, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	entries = append(entries, entry{name: "usr/share/doc/hookonce/THIRD-PARTY-NOTICES.gz", mode: 0o644, data: data})
	examples, err := b.deployment("usr/share/doc/hookonce/examples")
	if err != nil {
		return nil, err
	}
	entries = append(entries, examples...)
	unit, err := os.ReadFile(filepath.Join(b.source, "deploy", "systemd", "hookonce.service"))
	if err != nil {
		return nil, err
	}
	if unit, err = packagedUnit(unit); err != nil {
		return nil, err
	}
	entries = append(entries, entry{name: "usr/lib/systemd/system/hookonce.service", mode: 0o644, data: unit})
	for name, mode := range map[string]fs.FileMode{"hookonce.yaml": 0o644, "env": 0o600} {
		data, err := b.packaging(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: "etc/hookonce/" + name, mode: mode, data: data, config: true})
	}
	return entries, nil
}

func (b *build) packaging(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(b.source, "deploy", "package", filepath.FromSlash(name)))
}

// packagedUnit returns the unit for a package, which has the program elsewhere and makes a user.
func packagedUnit(unit []byte) ([]byte, error) {
	text := string(unit)
	_, text, found := strings.Cut(text, "\n\n") // the first paragraph tells how to install it by hand
	for _, change := range [][2]string{
		{"=/usr/local/bin/hookonce ", "=/usr/bin/hookonce "},
		{"Documentation=", "Documentation=man:hookonce(1) "},
	} {
		found = found && strings.Count(text, change[0]) == 1
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	if !found {
		return nil, errors.New("deploy/systemd/hookonce.service has changed: say here how its copy in a package differs")
	}
	return []byte(text), nil
}

func (b *build) deb(t target, entries []entry) error {
	copyright, err := b.packaging("deb/copyright")
	if err != nil {
		return err
	}
	overrides, err := b.packaging("deb/lintian-overrides")
	if err != nil {
		return err
	}
	changes, err := gzipped(fmt.Appendf(nil, "hookonce (%s) unstable; urgency=medium\n\n  * The changes are in\n    %s/blob/main/CHANGELOG.md\n\n -- %s  %s\n",
		b.packageVersion(), homepage, maintainer, b.date.Format(time.RFC1123Z)), gzip.BestCompression)
	if err != nil {
		return err
	}
	entries = withFolders(append(entries,
		entry{name: "usr/share/doc/hookonce/copyright", mode: 0o644, data: copyright},
		entry{name: "usr/share/doc/hookonce/changelog.gz", mode: 0o644, data: changes},
		entry{name: "usr/share/lintian/overrides/hookonce", mode: 0o644, data: overrides},
		entry{name: "usr/share/zsh/vendor-completions/_hookonce", mode: 0o644, data: b.completions["zsh"]}))
	control, err := b.control(t, entries)
	if err != nil {
		return err
	}
	controlFile, err := tarGzipped(control, "./", b.date)
	if err != nil {
		return err
	}
	dataFile, err := tarGzipped(entries, "./", b.date)
	if err != nil {
		return err
	}
	out := bytes.NewBufferString("!<arch>\n")
	for _, part := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", controlFile}, {"data.tar.gz", dataFile}} {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", part.name, b.date.Unix(), 0, 0, 0o100644, len(part.data))
		out.Write(part.data)
		if len(part.data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return b.write(fmt.Sprintf("hookonce_%s_%s.deb", b.packageVersion(), t.arch), out.Bytes())
}

// control returns the files that describe a deb.
func (b *build) control(t target, entries []entry) ([]entry, error) {
	var sums, config strings.Builder
	size := 0
	for _, e := range entries {
		size += (len(e.data)+1023)/1024 + 1
		switch {
		case e.config:
			fmt.Fprintf(&config, "/%s\n", e.name)
		case !e.mode.IsDir():
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(e.data), e.name)
		}
	}
	text := fmt.Sprintf("Package: hookonce\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\n"+
		"Depends: passwd\nRecommends: ca-certificates\nSuggests: postgresql\nSection: net\nPriority: optional\n"+
		"Homepage: %s\nDescription: %s\n %s\n",
		b.packageVersion(), t.arch, maintainer, size, homepage, summary, strings.ReplaceAll(description, "\n", "\n "))
	control := []entry{
		{name: "control", mode: 0o644, data: []byte(text)},
		{name: "md5sums", mode: 0o644, data: []byte(sums.String())},
		{name: "conffiles", mode: 0o644, data: []byte(config.String())},
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		script, err := b.packaging("deb/" + name)
		if err != nil {
			return nil, err
		}
		control = append(control, entry{name: name, mode: 0o755, data: script})
	}
	return control, nil
}

func (b *build) rpm(t target, entries []entry) error {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[t.arch]
	p, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: "hookonce", Version: b.packageVersion(), Release: "1", Arch: arch, OS: "linux", Epoch: rpmpack.NoEpoch,
		Summary: summary, Description: description, URL: homepage, Packager: maintainer, Licence: "Apache-2.0",
		BuildTime: b.date, BuildHost: "reproducible", Compressor: "gzip:6",
		Requires: rpmpack.Relations{{Name: "shadow-utils"}}, Recommends: rpmpack.Relations{{Name: "ca-certificates"}},
	})
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(b.source, "LICENSE"))
	if err != nil {
		return err
	}
	entries = append(entries,
		entry{name: "usr/share/licenses/hookonce/LICENSE", mode: 0o644, data: licence},
		entry{name: "usr/share/zsh/site-functions/_hookonce", mode: 0o644, data: b.completions["zsh"]},
		entry{name: "etc/hookonce", mode: fs.ModeDir | 0o755})
	for _, e := range entries {
		file := rpmpack.RPMFile{
			Name: "/" + e.name, Body: e.data, Mode: uint(e.mode.Perm()), Owner: "root", Group: "root", MTime: uint32(b.date.Unix()),
		}
		if e.config {
			file.Type = rpmpack.ConfigFile | rpmpack.NoReplaceFile
		}
		if e.mode.IsDir() {
			file.Mode |= 0o40000
		}
		p.AddFile(file)
	}
	for name, add := range map[string]func(string){
		"pre": p.AddPrein, "post": p.AddPostin, "preun": p.AddPreun, "postun": p.AddPostun,
	} {
		script, err := b.packaging("rpm/" + name)
		if err != nil {
			return err
		}
		add(string(script))
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		return err
	}
	return b.write(fmt.Sprintf("hookonce-%s-1.%s.rpm", b.packageVersion(), arch), out.Bytes())
}
