package bench

import (
	"os"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(serveRole(role))
	}
	code := dbtest.Run(m)
	if buildFolder != "" {
		_ = os.RemoveAll(buildFolder) // a leftover does no harm in the folder for temporary files
	}
	os.Exit(code)
}
