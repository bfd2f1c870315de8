package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
	"github.com/hookonce/hookonce/internal/test/vectors"
)

// vectorCase is one request of the test vectors.
type vectorCase struct {
	Name    string            `json:"name"`
	Scheme  string            `json:"scheme"`
	Confirm bool              `json:"confirmed"`
	Expect  string            `json:"expect"`
	Secret  *string           `json:"secret"`
	Params  map[string]string `json:"params"`
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Now     int64             `json:"now"`
	Key     *struct {
		Value json.RawMessage `json:"value"`
	} `json:"key"`
}

// otherVerdicts are judged differently on purpose: the first two vectors are within the minute that
// clocks may differ, and a secret outside of ASCII is refused.
var otherVerdicts = map[string]bool{
	"contentful/generated-valid/stale": true, "paddle/generated-valid/stale": true, "easypost/sdk-valid-nfkd": true,
}

// verify gives the verdict and the exit code that each vector expects.
func TestVerifyVectors(t *testing.T) {
	t.Parallel()
	for _, file := range vectors.Files(t) {
		for _, c := range vectors.Cases[vectorCase](t, file.Cases) {
			if c.Confirm && !otherVerdicts[file.Provider+"/"+c.Name] {
				t.Run(file.Provider+"/"+c.Name, func(t *testing.T) {
					t.Parallel()
					c.check(t, file.Provider)
				})
			}
		}
	}
}

func (c *vectorCase) check(t *testing.T, provider string) {
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), c.args(t, provider), strings.NewReader(c.Body), &stdout, &stderr, nil)
	want := map[string]int{"valid": 0, "invalid": 1}[c.Expect]
	if code != want {
		t.Fatalf("exit code %d, want %d\n%s%s", code, want, &stdout, &stderr)
	}
	var got struct {
		Valid  bool
		Reason *string
		Events []struct{ ID *string }
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, &stdout)
	}
	if got.Valid != (want == 0) || got.Reason == nil || (*got.Reason == "") != got.Valid || got.Events == nil || !got.Valid && len(got.Events) > 0 {
		t.Errorf("printed %s", &stdout)
	}
	if c.Secret != nil && len(*c.Secret) > 8 && strings.Contains(stdout.String()+stderr.String(), *c.Secret) && !strings.Contains(c.Body, *c.Secret) {
		t.Errorf("the secret is printed: %s%s", &stdout, &stderr)
	}
}

func (c *vectorCase) args(t *testing.T, provider string) []string {
	args := []string{
		"verify", "--json", "--provider", provider, "--scheme", c.Scheme, "--method", c.Method, "--url", c.URL,
		"--at", fmt.Sprint(c.Now), "--body", "-",
	}
	for name, value := range c.Headers {
		args = append(args, "-H", name+": "+value)
	}
	for name, value := range c.Params {
		args = append(args, "--param", name+"="+value)
	}
	if c.Secret != nil {
		args = append(args, "--secret", *c.Secret)
	}
	if c.Key != nil {
		value := []byte(c.Key.Value)
		var text string
		if json.Unmarshal(value, &text) == nil {
			value = []byte(text)
		}
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, value, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--key", file)
	}
	return args
}
