package pages

import (
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

func TestMain(m *testing.M) {
	group.Only("pages")
	dbtest.Main(m)
}

func TestGroup(t *testing.T) { group.Need(t, "pages") }
