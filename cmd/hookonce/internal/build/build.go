// Package build tells the source of this program, and the addresses of its pages.
package build

import (
	"cmp"
	"regexp"
	"runtime"
	"runtime/debug"
)

// The linker sets these in release builds, which are made without git:
// -ldflags "-X github.com/hookonce/hookonce/cmd/hookonce/internal/build.StampedVersion=v1.2.3".
var (
	StampedVersion  string
	StampedRevision string // of the source
	StampedDate     string // of that revision, as RFC 3339
)

// Info is a part of the shape of hookonce version --json.
type Info struct {
	Version  string `json:"version"`  // "(devel)" if it was not recorded
	Revision string `json:"revision"` // of the source; "" if it was not recorded
	Date     string `json:"date"`     // of that revision, as RFC 3339; "" if it was not recorded
	Modified bool   `json:"modified"` // the source had changes beyond that revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns the source of this program, and its system.
func Read() Info {
	i := Info{
		Version: StampedVersion, Revision: StampedRevision, Date: StampedDate,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		i.Version = cmp.Or(i.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Revision = cmp.Or(i.Revision, s.Value)
			case "vcs.time":
				i.Date = cmp.Or(i.Date, s.Value)
			case "vcs.modified":
				i.Modified = s.Value == "true"
			}
		}
	}
	i.Version = cmp.Or(i.Version, "(devel)")
	return i
}

// released matches the tag of a release. Versions that Go makes of a commit are no tags.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-rc\.\d+)?$`)

// Page returns the address of a page in docs/, such as settings.md#admin, as it was when this program was released.
func Page(name string) string {
	at := "main"
	if v := Read().Version; released.MatchString(v) {
		at = v
	}
	return "https://github.com/hookonce/hookonce/blob/" + at + "/docs/" + name
}
