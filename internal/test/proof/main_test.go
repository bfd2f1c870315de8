package proof

import (
	"os"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" {
		os.Exit(workerMain(text))
	}
	dbtest.Parallel(4)
	code := dbtest.Run(m)
	if plainFolder != "" {
		_ = os.RemoveAll(plainFolder) // leftovers are in the folder for temporary files
	}
	os.Exit(code)
}
