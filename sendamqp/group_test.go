package sendamqp_test

import (
	"os"
	"testing"

	"github.com/hookonce/hookonce/internal/test/group"
)

func TestMain(m *testing.M) {
	group.Only("brokers", "TestNew")
	os.Exit(m.Run())
}

func TestGroup(t *testing.T) { group.Need(t, "brokers") }
