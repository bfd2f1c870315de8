package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/provider"
)

// settingsFile is the settings file of the gateway, in the demo's folder.
const settingsFile = "hookonce.yaml"

// writeSettings writes the settings of the gateway. JSON is YAML.
func writeSettings(folder, database, bank string, secrets map[provider.Name]string) error {
	type object = map[string]any
	sources := object{}
	for name, secret := range secrets {
		source := object{"provider": name, "secrets": []string{secret}}
		for _, f := range forms[name] {
			if f.version != "" {
				source["stale"] = []object{{"types": []string{f.typ}, "key": "body:" + f.account, "version": "body:" + f.version}}
			}
		}
		sources[string(name)] = source
	}
	text, err := json.MarshalIndent(object{
		"database": database,
		// All forgeries come from one address, faster than a gateway answers by default.
		"unverified_rate": "10000/s",
		// The folder for temporary files may be in memory, or on a shared file system. The demo kills processes, not the machine.
		"allow_unsafe": []string{"fsync", "full_page_writes", "shared_filesystem", "volatile_filesystem"},
		"sources":      sources,
		"destinations": object{"bank": object{
			"url": bank, "timeout": "1s", "concurrency": 32,
			// A real bank is asked less often: the default is 20 attempts in about three days.
			"retry": object{"attempts": 50, "first": "200ms", "max": "1s"},
		}},
		"routes": []object{{"name": "bank", "to": "bank"}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, settingsFile), text, 0o600)
}

// replay has the gateway send all dead letters again, and returns their number.
func replay(ctx context.Context, admin string) (int, error) {
	client, err := adminclient.New("http://"+admin, "", nil)
	if err != nil {
		return 0, err
	}
	replayed, err := client.ReplayAllDead(ctx)
	if err != nil {
		return 0, fmt.Errorf("replaying the dead letters: %w", err)
	}
	return replayed, nil
}
