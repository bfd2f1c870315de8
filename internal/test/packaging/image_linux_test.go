package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestImage runs the image under crun: with a read-only file system beside the folder of the database, without
// capabilities, and with the health check of the compose file.
func TestImage(t *testing.T) {
	tools(t, "skopeo=skopeo", "umoci=umoci", "crun=crun", "minisign=minisign")
	folder := t.TempDir()
	bundle, data, etc := filepath.Join(folder, "bundle"), filepath.Join(folder, "data"), filepath.Join(folder, "etc")
	must(t, "skopeo", "copy", "--insecure-policy", "oci-archive:"+one(t, release(t, "v0.0.1"), "*_oci.tar"), "oci:"+folder+"/layout:it")
	must(t, "umoci", "unpack", "--image", folder+"/layout:it", bundle)
	must(t, "install", "-d", "-o", "65532", "-g", "65532", "-m", "0700", data)
	must(t, "install", "-d", etc)
	if err := os.WriteFile(etc+"/hookonce.yaml", []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	restrict(t, filepath.Join(bundle, "config.json"), map[string]string{"/data": data, "/etc/hookonce": etc})

	// crun looks for the cgroups of version 2 alone, even if it makes none.
	crun := func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{
			"--mount", "sh", "-c", `mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"`, "sh",
			"crun", "--root", filepath.Join(folder, "crun"), "--cgroup-manager=disabled",
		}, args...)...)
	}
	log := &strings.Builder{}
	gateway := crun("run", "--bundle", bundle, "hookonce")
	gateway.Stdout, gateway.Stderr = log, log
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- gateway.Wait() }()
	t.Cleanup(func() { _, _ = run(crun("delete", "--force", "hookonce")) })
	eventually.Succeeds(t, "the container is ready", func() error {
		_, err := run(crun("exec", "hookonce", "/hookonce", "ready", "--admin-url", "http://127.0.0.1:8081"))
		return err
	})
	_, secret, _ := strings.Cut(strings.TrimSpace(environment), "=")
	answers, err := run(crun(append([]string{"exec", "hookonce", "/hookonce"}, append(sending, "--secret", secret)...)...))
	if err != nil {
		t.Fatal(err, answers)
	}
	contains(t, answers, `"status":"duplicate"`)
	if _, err := os.Stat(data + "/hookonce.db"); err != nil {
		t.Error(err)
	}
	if out, err := run(crun("kill", "hookonce", "TERM")); err != nil {
		t.Fatal(err, out)
	}
	if err := eventually.Receive(t, "the container ends", ended); err != nil {
		t.Fatalf("the container: %v\n%s", err, log)
	}
}

// restrict makes the configuration of a container as strict as the compose file does, and mounts folders.
func restrict(t *testing.T, file string, mounts map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	process, _ := config["process"].(map[string]any)
	process["terminal"], process["capabilities"], process["noNewPrivileges"] = false, map[string]any{}, true
	env, _ := process["env"].([]any)
	process["env"] = append(env, strings.TrimSpace(environment))
	root, _ := config["root"].(map[string]any)
	root["readonly"] = true
	var kept []any
	list, _ := config["mounts"].([]any)
	for _, mount := range list {
		if m, _ := mount.(map[string]any); m["type"] != "cgroup" {
			kept = append(kept, mount)
		}
	}
	for at, from := range mounts {
		kept = append(kept, map[string]any{"destination": at, "type": "bind", "source": from, "options": []string{"bind", "rw"}})
	}
	config["mounts"] = kept
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
