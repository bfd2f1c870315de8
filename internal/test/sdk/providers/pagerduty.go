package providers

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/PagerDuty/go-pagerduty/webhookv3"
)

func init() {
	add(&Subject{
		Provider: "pagerduty",
		SDK:      "github.com/PagerDuty/go-pagerduty",
		Verify: func(r *Request, key *Key) error {
			return webhookv3.VerifySignature(r.http(), key.Secret)
		},
		Vectors: pagerDutyVectors,
	})
}

var pagerDutyTest = regexp.MustCompile("(?s)secret += \"([^\"]+)\".*?defaultBody = `([^`]+)`.*?name: \"valid\",\\s+sig: +\"([^\"]+)\"")

// pagerDutyVectors returns the valid request of the SDK's test.
func pagerDutyVectors() ([]Saved, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/PagerDuty/go-pagerduty").Output()
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "webhookv3", "webhookv3_test.go"))
	if err != nil {
		return nil, err
	}
	var list []Saved
	if found := pagerDutyTest.FindSubmatch(source); found != nil {
		list = append(list, Saved{Name: "sdk-valid", Key: &Key{Secret: string(found[1])}, Request: Request{
			Header: map[string]string{"x-pagerduty-signature": string(found[3])}, Body: string(found[2]), Now: time.Now().UnixMilli(),
		}})
	}
	return list, nil
}
