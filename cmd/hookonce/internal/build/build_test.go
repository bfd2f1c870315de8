package build

import "testing"

func TestPage(t *testing.T) {
	t.Cleanup(func() { StampedVersion = "" })
	for built, at := range map[string]string{
		"": "main", "v0.1.0": "v0.1.0", "v0.2.0-rc.1": "v0.2.0-rc.1", "v0.1.1-0.20270131120000-0123456789ab": "main", "v0.1.0+dirty": "main",
	} {
		StampedVersion = built
		if got, want := Page("settings.md#admin"), "https://github.com/hookonce/hookonce/blob/"+at+"/docs/settings.md#admin"; got != want {
			t.Errorf("the page of a program of version %q is at %s, want %s", built, got, want)
		}
	}
}
