// Command release builds all that a release of hookonce has, from the last commit: programs, archives, packages, an image,
// bills of materials, checksums and their signature. It builds everything twice, in two folders, and fails unless both
// have the same bytes. .ci/release runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// allTargets are the systems that a release is for.
const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// release describes a release for its builds.
type release struct {
	version  string // v1.2.3
	revision string
	date     time.Time // of the revision
	targets  []target
	notes    string // what changed, of CHANGELOG.md
	key      string // the public key, as minisign writes it
	snapshot bool
}

// target is a system.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "_" + t.arch }

func (t target) program() string {
	if t.os == "windows" {
		return "hookonce.exe"
	}
	return "hookonce"
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run builds a release of the checkout in the current folder.
func run(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	snapshot := flags.Bool("snapshot", false, "build the last commit for a trial: without a tag, signed with a key that is thrown away")
	targets := flags.String("targets", allTargets, "build for these systems; host is this one")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: .ci/release [-snapshot] [-targets OS/ARCH,...] VERSION [OUT]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 1 || flags.NArg() > 2 {
		flags.Usage()
		return errors.New("it needs a version, such as v1.2.3")
	}
	out := "dist"
	if flags.NArg() == 2 {
		out = flags.Arg(1)
	}
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s exists: remove it, or name another folder", out)
	}
	temporary, err := os.MkdirTemp("", "hookonce-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	r := &release{version: flags.Arg(0), snapshot: *snapshot}
	if r.targets, err = parseTargets(*targets); err != nil {
		return err
	}
	if err := r.describe(ctx); err != nil {
		return err
	}
	key, err := r.signingKey(ctx, temporary)
	if err != nil {
		return err
	}
	made, err := r.buildTwice(ctx, temporary, log)
	if err != nil {
		return err
	}
	if err := r.scan(ctx, filepath.Dir(made), log); err != nil {
		return err
	}
	if err := r.sign(ctx, made, key); err != nil {
		return err
	}
	if err := os.CopyFS(out, os.DirFS(made)); err != nil {
		return err
	}
	fmt.Fprintf(log, "%s is in %s\n", r.version, out)
	return nil
}

func parseTargets(list string) (targets []target, err error) {
	for name := range strings.SplitSeq(list, ",") {
		if name == "host" {
			name = runtime.GOOS + "/" + runtime.GOARCH
		}
		system, arch, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("-targets %s: %q is not OS/ARCH", list, name)
		}
		targets = append(targets, target{system, arch})
	}
	return targets, nil
}

// versionForm is that of a tag: the versions of packages are made of it.
var versionForm = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9a-z]+(\.[0-9a-z]+)*)?$`)

// describe reads revision, date and notes from git, and checks that this revision may be released.
func (r *release) describe(ctx context.Context) error {
	if !versionForm.MatchString(r.version) {
		return fmt.Errorf("%q is no version: it is written v1.2.3 or v1.2.3-rc.1", r.version)
	}
	seen, err := git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	var seconds int64
	if _, err := fmt.Sscanf(seen, "%s %d", &r.revision, &seconds); err != nil {
		return fmt.Errorf("git log: %w", err)
	}
	r.date = time.Unix(seconds, 0).UTC()
	changelog, err := git(ctx, "show", "HEAD:CHANGELOG.md")
	if err != nil {
		return err
	}
	if r.notes, err = notes(changelog, r.version, r.snapshot); err != nil {
		return err
	}
	if r.snapshot {
		return nil
	}
	if err := errors.Join(pinned(ctx), frozen(ctx), saysReleased(ctx)); err != nil {
		return err
	}
	if tagged, err := git(ctx, "rev-list", "-1", r.version); err != nil || tagged != r.revision {
		return fmt.Errorf("the last commit is not tagged %s: tag it, or build a -snapshot", r.version)
	}
	return nil
}

// toolchain is the compiler that a workflow names.
var toolchain = regexp.MustCompile(`(?m)^ *GOTOOLCHAIN: (go1\.\S+)$`)

// pinned fails unless the compiler here is that of the workflow: another one makes other bytes.
func pinned(ctx context.Context) error {
	workflow, err := git(ctx, "show", "HEAD:.github/workflows/release.yml")
	if err != nil {
		return err
	}
	compiler, err := output(ctx, "", nil, "go", "env", "GOVERSION")
	if err != nil {
		return err
	}
	if named := toolchain.FindStringSubmatch(workflow); named == nil || named[1] != compiler {
		return fmt.Errorf("the compiler here is %s, and release.yml has %q: set GOTOOLCHAIN", compiler, named)
	}
	return nil
}

// frozen fails unless the steps of the schema are listed with their hashes, and a database with the last step of each folder
// is kept, so that tests can hold them from now on.
func frozen(ctx context.Context) error {
	steps, err := git(ctx, "ls-tree", "-r", "--name-only", "HEAD", "hookmigrate/postgres", "hookmigrate/sqlite")
	if err != nil {
		return err
	}
	sums, err := git(ctx, "show", "HEAD:hookmigrate/testdata/released.sum")
	if err != nil {
		return fmt.Errorf("the schema is not frozen, see CONTRIBUTING.md: %w", err)
	}
	kept, err := git(ctx, "ls-tree", "-r", "--name-only", "HEAD", "hookmigrate/testdata/released")
	if err != nil {
		return err
	}
	last := map[string]string{}
	for step := range strings.Lines(steps) {
		name := strings.TrimPrefix(strings.TrimSpace(step), "hookmigrate/")
		last[path.Dir(name)] = strings.TrimSuffix(name, ".sql")
		if !strings.Contains(sums+"\n", "  "+name+"\n") {
			return fmt.Errorf("hookmigrate/testdata/released.sum does not list %s, see CONTRIBUTING.md", name)
		}
	}
	for _, name := range last {
		if !strings.Contains(kept, "/released/"+name+".") {
			return fmt.Errorf("hookmigrate/testdata/released has no database with the step %s, see CONTRIBUTING.md", name)
		}
	}
	return nil
}

// saysReleased fails while a page still says that there is no release.
func saysReleased(ctx context.Context) error {
	const texts = "(before its|until the|after the) first release|hookonce@main"
	pages, err := git(ctx, "grep", "--ignore-case", "--extended-regexp", "--line-number", texts, "HEAD", "--", "*.md", "docs", ":!CHANGELOG.md")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // it found nothing
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("these pages say that there is no release yet:\n%s", pages)
}

// buildTwice builds in two folders, and returns the one with the results. In the second folder nothing comes from the cache
// of compiled packages, except for a trial of one system.
func (r *release) buildTwice(ctx context.Context, temporary string, log io.Writer) (string, error) {
	first, second := filepath.Join(temporary, "1"), filepath.Join(temporary, "another-folder")
	for _, folder := range []string{first, second} {
		start := time.Now()
		source, made := filepath.Join(folder, "source"), filepath.Join(folder, "made")
		for _, name := range []string{source, made} {
			if err := os.MkdirAll(name, 0o700); err != nil {
				return "", err
			}
		}
		if err := export(ctx, source); err != nil {
			return "", err
		}
		b := &build{release: r, ctx: ctx, source: source, made: made, log: log}
		if folder == second && len(r.targets) > 1 {
			b.environment = append(b.environment, "GOCACHE="+filepath.Join(folder, "cache"))
		}
		if err := b.all(); err != nil {
			return "", err
		}
		fmt.Fprintf(log, "built in %s, %s\n", folder, time.Since(start).Round(time.Second))
	}
	made := filepath.Join(first, "made")
	return made, same(made, filepath.Join(second, "made"))
}

// scan looks for known vulnerabilities in the programs of a release. The gate looks for them in the source.
func (r *release) scan(ctx context.Context, folder string, log io.Writer) error {
	for _, t := range r.targets {
		if r.snapshot {
			break
		}
		_, err := output(ctx, "", nil, ".ci/vulncheck", filepath.Join(folder, t.String(), t.program()))
		var failed *exec.ExitError
		if errors.As(err, &failed) && failed.ExitCode() == 75 {
			fmt.Fprintln(log, "NOT RUN: the database of vulnerabilities cannot be reached; the programs are not checked")
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// export writes the files of the last commit into a folder.
func export(ctx context.Context, folder string) error {
	archive := filepath.Join(filepath.Dir(folder), "source.tar")
	if _, err := git(ctx, "archive", "--format=tar", "--output="+archive, "HEAD"); err != nil {
		return err
	}
	_, err := output(ctx, folder, nil, "tar", "-xf", archive)
	return err
}

func git(ctx context.Context, args ...string) (string, error) {
	// The checkout may belong to another user.
	return output(ctx, "", nil, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
}

// output runs a command, and returns its output.
func output(ctx context.Context, folder string, environment []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdin = os.Stdin // minisign may ask for the password of a key
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w\n%s%s", err, out, failed.Stderr)
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
