package e2e

import (
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) {
	dbtest.Parallel(6)
	dbtest.Main(m)
}
