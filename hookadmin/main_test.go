package hookadmin_test

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) {
	dbtest.Parallel(8)      // many wait
	debug.SetGCPercent(400) // collections cost more than the memory
	os.Exit(m.Run())
}
