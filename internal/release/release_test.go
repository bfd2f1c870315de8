package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## v1.1.0 (2027-02-01)\n\n### Added\n\n- more\n\n## v1.0.0\n\n- first\n"
	_, released, _ := strings.Cut(changelog, "- new\n\n")
	for name, c := range map[string]struct {
		changelog, version string
		snapshot           bool
		want, fault        string
	}{
		"a snapshot has the unreleased changes": {changelog: changelog, version: "v9.9.9", snapshot: true, want: "- new\n"},
		"a tag with unreleased changes":         {changelog: changelog, version: "v1.1.0", fault: "has the section Unreleased: name it v1.1.0"},
		"the newest":                            {changelog: released, version: "v1.1.0", want: "### Added\n\n- more\n"},
		"the last":                              {changelog: released, version: "v1.0.0", want: "- first\n"},
		"none":                                  {changelog: released, version: "v1.2.0", fault: "no section ## v1.2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := notes(c.changelog, c.version, c.snapshot)
			if got != c.want || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("notes are %q, %v", got, err)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v0.1.0-rc.1": "0.1.0~rc.1", "1.2.3": "", "v1.2": "", "v1.02.3": "", "v1.2.3-RC/../x": "", "v1.2.3-a-b": "",
	} {
		if !versionForm.MatchString(version) {
			if want != "" {
				t.Errorf("%s is refused", version)
			}
		} else if got := (&release{version: version}).packageVersion(); got != want {
			t.Errorf("the package of %s has the version %q, want %q", version, got, want)
		}
	}
}

// The workflows have one compiler, of the version that every go.mod needs. The notes of a release name it.
func TestCompiler(t *testing.T) {
	t.Parallel()
	var named []string
	for _, workflow := range []string{"ci", "release"} {
		text, err := os.ReadFile("../../.github/workflows/" + workflow + ".yml")
		if err != nil {
			t.Fatal(err)
		}
		m := toolchain.FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s.yml names no compiler", workflow)
		}
		named = append(named, string(m[1]))
	}
	if named[0] != named[1] {
		t.Errorf("ci.yml has %s, release.yml %s", named[0], named[1])
	}
	files, err := output(t.Context(), "../..", nil, "git", "-c", "safe.directory=*", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.Lines(files) {
		file = strings.TrimSpace(file)
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if line := regexp.MustCompile(`(?m)^go (\d+\.\d+)\.0$`).FindSubmatch(text); line == nil || !strings.HasPrefix(named[1], "go"+string(line[1])+".") {
			t.Errorf("%s needs Go %q, the release is built by %s", file, line, named[1])
		}
	}
}

// The image has one manifest for each system, and each has the same settings.
func TestImageOfEachSystem(t *testing.T) {
	t.Parallel()
	image, r := ociImage{}, &release{version: "v1.2.3", date: time.Unix(0, 0)}
	for _, arch := range []string{"amd64", "arm64"} {
		if err := image.add(target{"linux", arch}, []byte("program of "+arch), nil, r); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(digest string, into any) {
		t.Helper()
		for _, b := range image.blobs {
			if b.name == "blobs/"+strings.ReplaceAll(digest, ":", "/") {
				if err := json.Unmarshal(b.data, into); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatalf("there is no blob %s", digest)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		m := image.manifests[i]
		var manifest struct{ Config descriptor }
		blob(m.Digest, &manifest)
		var config struct {
			Architecture, OS string
			Config           struct {
				User            string
				Entrypoint, Cmd []string
			}
		}
		blob(manifest.Config.Digest, &config)
		if m.Platform.Architecture != arch || config.Architecture != arch || m.Platform.OS != "linux" || config.OS != "linux" ||
			config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/hookonce" || config.Config.Cmd[0] != "serve" {
			t.Errorf("%s: the image is of %+v, its settings are %+v", arch, m.Platform, config)
		}
	}
	if image.manifests[0].Digest == image.manifests[1].Digest {
		t.Error("both systems have one program")
	}
}

// Two builds that differ in a byte, in a mode, or by a file fail.
func TestSame(t *testing.T) {
	t.Parallel()
	one := t.TempDir()
	put := func(folder, name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put(one, "a", "text", 0o644)
	for name, c := range map[string]struct {
		file, text string
		mode       os.FileMode
		more       bool
		same       bool
	}{
		"equal":        {file: "a", text: "text", mode: 0o644, same: true},
		"a byte":       {file: "a", text: "texT", mode: 0o644},
		"the mode":     {file: "a", text: "text", mode: 0o755},
		"another name": {file: "b", text: "text", mode: 0o644},
		"one more":     {file: "a", text: "text", mode: 0o644, more: true},
	} {
		other := t.TempDir()
		put(other, c.file, c.text, c.mode)
		if c.more {
			put(other, "more", "", 0o644)
		}
		if err := same(one, other); (err == nil) != c.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An archive depends on nothing but its entries and the date, and folders stand before their files.
func TestArchive(t *testing.T) {
	t.Parallel()
	date := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	entries := []entry{{name: "b/c/file", mode: 0o644, data: []byte("x")}, {name: "a", mode: 0o755}}
	var names []string
	for _, e := range withFolders(entries) {
		names = append(names, e.name)
	}
	if diff := cmp.Diff([]string{"a", "b", "b/c", "b/c/file"}, names); diff != "" {
		t.Error(diff)
	}
	one, err := tarGzipped(withFolders(entries), "./", date)
	if err != nil {
		t.Fatal(err)
	}
	other, err := tarGzipped(withFolders([]entry{entries[1], entries[0]}), "./", date.In(time.FixedZone("", 3600)))
	if err != nil || !cmp.Equal(one, other) {
		t.Errorf("the archives differ, %v", err)
	}
}

// The files for deployment name the image of the release.
func TestImages(t *testing.T) {
	t.Parallel()
	entries := []entry{{name: "other.yaml"}, {name: "compose.yaml", data: []byte("image: ghcr.io/hookonce/hookonce:0.1.0   # it\n")}}
	if err := checkImages(entries, "v0.1.0"); err != nil {
		t.Error(err)
	}
	if err := checkImages(entries, "v0.2.0"); err == nil || !strings.Contains(err.Error(), "compose.yaml names ghcr.io/hookonce/hookonce:0.1.0") {
		t.Errorf("the error is %v", err)
	}
}

func TestBill(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Deps: []*debug.Module{{Path: "example.com/a", Version: "v1.0.0"}}}
	for bill, good := range map[string]bool{
		`{"components":[{"name":"example.com/a","version":"v1.0.0"}]}`: true,
		`{"components":[{"name":"example.com/a","version":"v1.0.1"}]}`: false,
		`{"components":[]}`: false,
		`{"components":[{"name":"example.com/a","version":"v1.0.0"},{"name":"example.com/b","version":"v1.0.0"}]}`: false,
	} {
		if err := checkBill([]byte(bill), info); (err == nil) != good {
			t.Errorf("%s: %v", bill, err)
		}
	}
}

// The unit of a package runs the program of the package, as the user of the package.
func TestPackagedUnit(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../deploy/systemd/hookonce.service")
	if err != nil {
		t.Fatal(err)
	}
	packaged, err := packagedUnit(unit)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"ExecStart=/usr/bin/hookonce serve --config /etc/hookonce/hookonce.yaml", "User=hookonce", "StateDirectory=hookonce", "ProtectSystem=strict",
	} {
		if !strings.Contains(string(packaged), "\n"+line+"\n") {
			t.Errorf("the unit lacks %s", line)
		}
	}
	if _, err := packagedUnit([]byte(strings.ReplaceAll(string(unit), "Documentation=", "Docs="))); err == nil {
		t.Error("a unit without the line of the user is taken")
	}
}

// A release fails while a page says that there is none yet.
func TestPagesOfARelease(t *testing.T) {
	t.Chdir(t.TempDir())
	commit := func(page string) {
		t.Helper()
		if err := os.WriteFile("README.md", []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "a page"}} {
			if _, err := git(t.Context(), args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, page := range []string{"Until the First Release, build it.\n", "go get github.com/hookonce/hookonce@main\n"} {
		commit(page)
		if err := saysReleased(t.Context()); err == nil || !strings.Contains(err.Error(), "README.md:1:") {
			t.Errorf("%q: got the error %v, want that of the page", page, err)
		}
	}
	commit("hookonce v0.1.0 is out.\n")
	if err := saysReleased(t.Context()); err != nil {
		t.Error(err)
	}
}
