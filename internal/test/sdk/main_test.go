package sdk

import (
	"fmt"
	"os"
	"testing"

	"github.com/hookonce/hookonce/internal/test/sdk/providers"
)

// subjects holds every subject, of Go and of npm.
var subjects []*providers.Subject

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	n, err := startNode()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		log, err := n.stop()
		if err != nil {
			code = 1
		}
		if code != 0 {
			fmt.Fprintf(os.Stderr, "node has ended: %v; the SDKs printed:\n%.4000s\n", err, log)
		}
	}()
	ofNPM, err := n.subjects()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	subjects = append(providers.All(), ofNPM...)
	return m.Run()
}
