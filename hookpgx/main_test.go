package hookpgx_test

import (
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) {
	dbtest.Parallel(4)
	dbtest.Main(m)
}
