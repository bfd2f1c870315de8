package consumer_test

import (
	_ "embed"
	"path/filepath"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/sqltest"
)

//go:embed schema.sql
var schema string

func TestMain(m *testing.M) {
	group.Only("examples")
	dbtest.Main(m)
}

func TestGroup(t *testing.T) { group.Need(t, "examples") }

func TestConsumer(t *testing.T) {
	program, err := filepath.Abs("consumer.py")
	if err != nil {
		t.Fatal(err)
	}
	sqltest.Consumer(t, schema, sqltest.Python(t), program)
}
