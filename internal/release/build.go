package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// build makes a release once, in a folder with the source.
type build struct {
	*release
	ctx         context.Context
	source      string // the folder of the source
	made        string // the folder of the results
	environment []string
	log         io.Writer

	manuals     []entry // man pages
	completions map[string][]byte
	image       ociImage
}

// all makes everything but the checksums.
func (b *build) all() error {
	host, err := b.program(target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return err
	}
	if err := b.describeCommands(host); err != nil {
		return err
	}
	for _, t := range b.targets {
		if err := b.target(t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	if err := b.writeImage(); err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join(b.source, "deploy", "package", "install.sh"))
	if err != nil {
		return err
	}
	compiler, err := output(b.ctx, b.source, nil, "go", "env", "GOVERSION")
	if err != nil {
		return err
	}
	script = []byte(strings.NewReplacer("@VERSION@", b.version, "@KEY@", b.key).Replace(string(script)))
	return errors.Join(b.write("install.sh", script), b.write("NOTES.md", []byte(b.notes+"\nBuilt with "+compiler+": `.ci/release` of this tag makes the same bytes with it.\n")))
}

func (b *build) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(b.made, name), data, 0o644)
}

// program builds the program for a system, and returns its file.
func (b *build) program(t target) (string, error) {
	file := filepath.Join(b.source, "..", t.String(), t.program())
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	const stamp = " -X github.com/hookonce/hookonce/cmd/hookonce/internal/build.Stamped"
	_, err := output(b.ctx, b.source, append([]string{
		"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOOS=" + t.os, "GOARCH=" + t.arch,
	}, b.environment...),
		"go", "build", "-trimpath", "-buildvcs=false", "-o", file, "-ldflags", "-s -w"+
			stamp+"Version="+b.version+stamp+"Revision="+b.revision+stamp+"Date="+b.date.Format(time.RFC3339), "./cmd/hookonce")
	return file, err
}

// describeCommands lets the program of this machine write manual pages and completions, and checks its version.
func (b *build) describeCommands(host string) error {
	said, err := output(b.ctx, "", nil, host, "version", "--json")
	if err != nil {
		return err
	}
	var is struct{ Version, Revision, Date string }
	if err := json.Unmarshal([]byte(said), &is); err != nil {
		return err
	}
	if is.Version != b.version || is.Revision != b.revision || is.Date != b.date.Format(time.RFC3339) {
		return fmt.Errorf("the program says %+v, but it is %s of %s at %s", is, b.version, b.revision, b.date)
	}
	folder := filepath.Join(b.source, "..", "man")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if _, err := output(b.ctx, "", nil, host, "man", folder); err != nil {
		return err
	}
	if b.manuals, err = read(folder, ""); err != nil {
		return err
	}
	b.completions = map[string][]byte{}
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		text, err := output(b.ctx, "", nil, host, "completion", shell)
		if err != nil {
			return err
		}
		b.completions[shell] = []byte(text + "\n")
	}
	return nil
}

// target makes what there is for one system.
func (b *build) target(t target) error {
	file, err := b.program(t)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("hookonce_%s_%s", b.version[1:], t)
	if err := b.bill(file, filepath.Join(b.made, name+".cdx.json")); err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	notices, err := b.notices(t)
	if err != nil {
		return err
	}
	if err := b.archive(name, t, data, notices); err != nil {
		return err
	}
	if t.os != "linux" {
		return nil
	}
	if err := b.image.add(t, data, notices, b.release); err != nil {
		return err
	}
	return b.packages(t, data, notices)
}

// archive writes the download for a person: a zip for Windows, otherwise a compressed tar.
func (b *build) archive(name string, t target, program, notices []byte) error {
	entries, err := b.deployment("deploy")
	if err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(b.source, name))
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: name, mode: 0o644, data: data})
	}
	for shell, text := range b.completions {
		entries = append(entries, entry{name: "completions/hookonce." + shell, mode: 0o644, data: text})
	}
	for _, page := range b.manuals {
		entries = append(entries, entry{name: "man/" + page.name, mode: 0o644, data: page.data})
	}
	entries = append(entries,
		entry{name: t.program(), mode: 0o755, data: program}, entry{name: "THIRD-PARTY-NOTICES", mode: 0o644, data: notices})
	for i := range entries {
		entries[i].name = name + "/" + entries[i].name
	}
	if t.os == "windows" {
		data, err := zipped(withFolders(entries), b.date)
		return errors.Join(err, b.write(name+".zip", data))
	}
	data, err := tarGzipped(withFolders(entries), "", b.date)
	return errors.Join(err, b.write(name+".tar.gz", data))
}

// deployment returns the files of deploy/ that a user reads.
func (b *build) deployment(name string) ([]entry, error) {
	entries, err := read(filepath.Join(b.source, "deploy"), "")
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool {
		return strings.HasPrefix(e.name, "package/") || strings.HasSuffix(e.name, ".go")
	})
	for i := range entries {
		entries[i].name = path.Join(name, entries[i].name)
	}
	if !b.snapshot {
		err = checkImages(entries, b.version)
	}
	return entries, err
}

// image matches the name of the image, with its version.
var image = regexp.MustCompile(`ghcr\.io/hookonce/hookonce:([0-9a-z.-]+)`)

// checkImages fails if files for deployment name an image of another version.
func checkImages(entries []entry, version string) error {
	for _, e := range entries {
		for _, found := range image.FindAllSubmatch(e.data, -1) {
			if string(found[1]) != version[1:] {
				return fmt.Errorf("%s names %s: name the version %s", e.name, found[0], version[1:])
			}
		}
	}
	return nil
}

// bill writes the bill of materials of a program, and checks it against the program.
func (b *build) bill(program, file string) error {
	_, err := output(b.ctx, "", nil, ".ci/tool", "cyclonedx-gomod", "bin", "-json", "-noserial", "-notimestamp",
		"-version", b.version, "-output", file, program)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	return checkBill(data, info)
}

// checkBill fails unless a bill of materials has the modules of a program, and no others.
func checkBill(data []byte, info *buildinfo.BuildInfo) error {
	var bill struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(data, &bill); err != nil {
		return err
	}
	listed, linked := map[string]bool{}, map[string]bool{}
	for _, c := range bill.Components {
		listed[c.Name+"@"+c.Version] = true
	}
	for _, m := range info.Deps {
		linked[m.Path+"@"+m.Version] = true
	}
	if !maps.Equal(listed, linked) {
		return fmt.Errorf("the bill of materials lists %v, the program has %v",
			slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(linked)))
	}
	return nil
}

// licenceFile says whether a file is a licence, a notice, or the like.
func licenceFile(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, ".go") {
		return false
	}
	return slices.ContainsFunc([]string{"license", "licence", "copying", "notice", "patents", "copyright", "unlicense"},
		func(word string) bool { return strings.HasPrefix(name, word) })
}

// notices returns the licences of all that is in the program of a system: of the linked packages' folders, and of those
// above them in their modules.
func (b *build) notices(t target) ([]byte, error) {
	goroot, err := output(b.ctx, b.source, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	listed, err := output(b.ctx, b.source, []string{"CGO_ENABLED=0", "GOFLAGS=", "GOOS=" + t.os, "GOARCH=" + t.arch},
		"go", "list", "-deps", "-f", `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}};{{.Dir}};{{$.Dir}}{{end}}{{end}}`, "./cmd/hookonce")
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for line := range strings.Lines(listed + "\nGo;" + goroot + ";" + goroot) {
		parts := strings.Split(strings.TrimSpace(line), ";")
		if len(parts) != 3 {
			continue
		}
		module, top, licensed := parts[0], parts[1], false
		for folder := parts[2]; ; folder = filepath.Dir(folder) {
			files, err := os.ReadDir(folder)
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				if file.IsDir() || !licenceFile(file.Name()) {
					continue
				}
				licensed = true
				below, _ := filepath.Rel(top, filepath.Join(folder, file.Name()))
				text, err := os.ReadFile(filepath.Join(folder, file.Name()))
				if err != nil {
					return nil, err
				}
				found[notice(module+", "+filepath.ToSlash(below), text)] = true
			}
			if folder == top {
				break
			}
		}
		if !licensed {
			return nil, fmt.Errorf("%s has no licence in %s", module, top)
		}
	}
	static := os.DirFS(filepath.Join(b.source, "hookadmin", "static"))
	files, err := fs.Glob(static, "*.LICENSE")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := fs.ReadFile(static, name)
		if err != nil {
			return nil, err
		}
		found[notice("the dashboard, "+strings.TrimSuffix(name, ".LICENSE"), text)] = true
	}
	return []byte(strings.Join(slices.Sorted(maps.Keys(found)), "\n")), nil
}

func notice(title string, text []byte) string {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return "==== " + title + "\n\n" + strings.TrimSpace(string(text)) + "\n"
}
