package main

import (
	"fmt"
	"regexp"
	"strings"
)

// heading matches the title of a version in CHANGELOG.md, with or without a date: ## Unreleased, ## v1.2.3 (2027-01-31).
var heading = regexp.MustCompile(`(?m)^## (\S+)( \(\d{4}-\d\d-\d\d\))?$`)

// notes returns the section of a version in CHANGELOG.md. A snapshot has the first one. A release fails while there are
// changes that belong to no version.
func notes(changelog, version string, snapshot bool) (string, error) {
	sections := heading.FindAllStringSubmatchIndex(changelog, -1)
	for i, at := range sections {
		name, end := changelog[at[2]:at[3]], len(changelog)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		switch {
		case name == version || snapshot:
			return strings.TrimSpace(changelog[at[1]:end]) + "\n", nil
		case name == "Unreleased":
			return "", fmt.Errorf("CHANGELOG.md has the section Unreleased: name it %s, or remove it", version)
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no section ## %s", version)
}
