package group_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/group"
)

func TestOn(t *testing.T) {
	for value, want := range map[string][3]bool{ // browser, sdk, long
		"": {}, "browser": {true, false, false}, "sdk, browser": {true, true, false}, "all": {true, true, false}, "all,long": {true, true, true}, "long": {false, false, true},
	} {
		t.Setenv(group.Environment, value)
		if got := [3]bool{group.On("browser"), group.On("sdk"), group.Long()}; got != want {
			t.Errorf("%s=%s: got %v, want %v", group.Environment, value, got, want)
		}
	}
}

// A misspelled group must not leave tests out in silence.
func TestUnknownGroup(t *testing.T) {
	t.Setenv(group.Environment, "browser,brwoser")
	defer func() {
		if recover() == nil {
			t.Error("an unknown group was accepted")
		}
	}()
	group.On("browser")
}

// The summaries of .ci/run and .ci/nightly read the names of the groups from the file group.go.
func TestSummaryNamesTheGroups(t *testing.T) {
	cmd := exec.Command("bash", "-c", ". .ci/steps && summarize")
	cmd.Dir = "../../.."
	cmd.Env = append(cmd.Environ(), group.Environment+"=browser")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	left := strings.ReplaceAll(strings.Join(group.Names(), " "), " browser", "")
	if want := "groups of tests that did not run: " + left + "\n"; !strings.HasSuffix(string(out), want) {
		t.Errorf("the summary ends with\n%s, want\n%s", out, want)
	}
}
