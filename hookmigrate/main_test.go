package hookmigrate_test

import (
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
