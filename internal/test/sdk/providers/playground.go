package providers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	playgroundSecret = regexp.MustCompile(`Options\.Secret\("([^"]+)"\)`)
	playgroundFile   = regexp.MustCompile(`filename: +"\.\./testdata/([^"]+)",\s+headers: http\.Header\{([^}]*\})*?,?\s+\},`)
	playgroundHeader = regexp.MustCompile(`"([A-Za-z0-9-]+)": +\[\]string\{"([^"]*)"\}`)
)

// playgroundDir returns the folder of go-playground/webhooks.
func playgroundDir() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", playground).Output()
	return strings.TrimSpace(string(out)), err
}

// playgroundVectors returns the requests of the tests of go-playground/webhooks, with their signatures.
func playgroundVectors(folder string) ([]Saved, error) {
	dir, err := playgroundDir()
	if err != nil {
		return nil, err
	}
	tests, err := filepath.Glob(filepath.Join(dir, folder, "*_test.go"))
	if err != nil || len(tests) != 1 {
		return nil, errors.Join(err, errors.New("go-playground/webhooks has no test of "+folder))
	}
	source, err := os.ReadFile(tests[0])
	if err != nil {
		return nil, err
	}
	secret := playgroundSecret.FindSubmatch(source)
	if secret == nil {
		return nil, errors.New("the test names no secret: " + tests[0])
	}
	var list []Saved
	for _, match := range playgroundFile.FindAllSubmatch(source, -1) {
		body, err := os.ReadFile(filepath.Join(dir, "testdata", string(match[1])))
		if err != nil {
			return nil, err
		}
		header := map[string]string{}
		for _, line := range playgroundHeader.FindAllSubmatch(match[0], -1) {
			header[strings.ToLower(string(line[1]))] = string(line[2])
		}
		list = append(list, Saved{
			Name: string(match[1]), Key: &Key{Secret: string(secret[1])}, Request: Request{Header: header, Body: string(body)},
		})
	}
	return list, nil
}
