package scale

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/race"
)

func TestMain(m *testing.M) {
	group.Only("scale")
	if !group.On("scale") {
		dbtest.Main(m)
	}
	var err error
	if buildFolder, err = os.MkdirTemp("", "hookonce-scale-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Before any test: a build beside a test takes the processors from its gateways.
	for _, built := range builds {
		if _, err := built(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	dbtest.Parallel(2)
	code := dbtest.Run(m)
	_ = os.RemoveAll(buildFolder) // leftovers are in the folder for temporary files
	os.Exit(code)
}

func TestGroup(t *testing.T) { group.Need(t, "scale") }

// root is the folder of the module.
var root = filepath.Join("..", "..", "..")

var buildFolder string

// builds makes each build of the program, once.
var builds []func() (string, error)

// Builds of the program.
var (
	// thisBuild is the program as it is here.
	thisBuild = onceBuilt("v1.0.0", nil)
	// nextBuild is a later version with the same schema.
	nextBuild = onceBuilt("v1.0.1", nil)
	// newSchema is a later version whose schema has one more step.
	newSchema = onceBuilt("v2.0.0", map[string]string{
		"hookmigrate/postgres/0002_more.sql": "ALTER TABLE {schema}.event ADD COLUMN more text;\n" +
			"INSERT INTO {schema}.schema_migration (version, name, hash) VALUES (2, 'more', '{hash}');\n",
	})
)

func onceBuilt(version string, overlay map[string]string) func(testing.TB) string {
	built := sync.OnceValues(func() (string, error) { return build(version, overlay) })
	builds = append(builds, built)
	return func(t testing.TB) string {
		t.Helper()
		path, err := built()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// build builds the program as a version, with files of the module replaced or added.
func build(version string, overlay map[string]string) (string, error) {
	folder := filepath.Join(buildFolder, version)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", err
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for name, text := range overlay {
		path := filepath.Join(folder, fmt.Sprint(len(replace)))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(top, filepath.FromSlash(name))] = path
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlayFile, program := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "hookonce")
	if err := os.WriteFile(overlayFile, list, 0o644); err != nil {
		return "", err
	}
	return program, race.Build(program, top, "./cmd/hookonce", race.Enabled, "-overlay", overlayFile,
		"-ldflags", "-X github.com/hookonce/hookonce/cmd/hookonce/internal/build.StampedVersion="+version)
}
