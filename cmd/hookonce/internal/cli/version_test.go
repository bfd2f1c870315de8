package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
)

// A release has the version and the revision from the linker, and dates its manual pages by its source.
func TestStampedVersion(t *testing.T) {
	build.StampedVersion, build.StampedRevision, build.StampedDate = "v1.2.3", "0123456789ab", "2026-10-05T10:00:00Z"
	t.Cleanup(func() { build.StampedVersion, build.StampedRevision, build.StampedDate = "", "", "" })
	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"version"}, strings.NewReader(""), &out, &errs, nil); code != 0 {
		t.Fatalf("version exits with %d: %s", code, errs.String())
	}
	lines := strings.Split(out.String(), "\n")
	want := []string{"hookonce v1.2.3", "revision 0123456789ab, 2026-10-05T10:00:00Z"}
	if diff := cmp.Diff(want, lines[:2]); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	if code := Main(t.Context(), []string{"man"}, strings.NewReader(""), &out, &errs, nil); code != 0 {
		t.Fatalf("man exits with %d: %s", code, errs.String())
	}
	if title, _, _ := strings.Cut(out.String(), ".SH"); !strings.Contains(title, `"Oct 2026" "hookonce v1.2.3"`) {
		t.Errorf("the page begins with %s", title)
	}
}
