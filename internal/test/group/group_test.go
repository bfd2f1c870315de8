package group_test

import (
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
