package bench

import (
	"os"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(serveRole(role))
	}
	group.Only("bench")
	dbtest.Main(m)
}

func TestGroup(t *testing.T) { group.Need(t, "bench") }
