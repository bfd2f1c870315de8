package cli_test

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const asanaSecret = "0123456789abcdef0123456789abcdef"

// arming is a process that runs "hookonce sources arm".
type arming struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr *bufio.Reader
}

// startArming starts the command, and returns once the source is armed.
func startArming(t *testing.T, dir string, args ...string) *arming {
	t.Helper()
	a := &arming{cmd: exec.Command("hookonce", append([]string{"sources", "arm"}, args...)...)}
	a.cmd.Dir, a.cmd.Stdout, a.cmd.Env = dir, &a.stdout, append(os.Environ(), raceEnv())
	pipe, err := a.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	a.stderr = bufio.NewReader(pipe)
	line, err := a.stderr.ReadString('\n')
	if err != nil || !strings.Contains(line, "takes one secret until") {
		t.Fatalf("it printed %q, error %v", line, err)
	}
	return a
}

func (a *arming) wait() (stdout string, code int) {
	_, _ = a.stderr.WriteTo(new(bytes.Buffer)) // until the process exits
	_ = a.cmd.Wait()                           // ProcessState holds the result
	return a.stdout.String(), a.cmd.ProcessState.ExitCode()
}

// postAsana posts to the source asana, and returns the status and the header X-Hook-Secret.
func (g *gateway) postAsana(t *testing.T, name, value, body string) (status int, secret string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.public+"/webhooks/asana", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(name, value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("X-Hook-Secret")
}

// TestSourcesArm sets up a webhook whose provider hands the secret over.
func TestSourcesArm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"),
		"sources: {asana: {provider: asana}, gh: {provider: github, secrets: ["+githubSecret+"]}}\n")
	g := startGateway(t, dir)
	if got, _ := g.postAsana(t, "X-Hook-Secret", asanaSecret, "{}"); got != http.StatusForbidden {
		t.Fatalf("before: %d", got)
	}
	a := startArming(t, dir, "asana")
	if got, secret := g.postAsana(t, "X-Hook-Secret", asanaSecret, "{}"); got != http.StatusOK || secret != asanaSecret {
		t.Fatalf("armed: %d, with the secret %q", got, secret)
	}
	mac := hmac.New(sha256.New, []byte(asanaSecret))
	body := `{"events":[{"action":"changed","resource":{"gid":"1","resource_type":"task"},"created_at":"2026-01-01T00:00:00Z"}]}`
	mac.Write([]byte(body))
	if got, _ := g.postAsana(t, "X-Hook-Signature", hex.EncodeToString(mac.Sum(nil)), body); got != http.StatusOK {
		t.Errorf("signed with the secret: %d", got)
	}
	if stdout, code := a.wait(); stdout != asanaSecret+"\n" || code != 0 {
		t.Errorf("sources arm printed %q, code %d", stdout, code)
	}
	if got, _ := g.postAsana(t, "X-Hook-Secret", strings.Repeat("f", 32), "{}"); got != http.StatusForbidden {
		t.Errorf("another secret afterwards: %d", got)
	}
	var list struct {
		Sources []struct {
			Name           string
			LearnedSecrets int     `json:"learned_secrets"`
			ArmedUntil     *string `json:"armed_until"`
		}
	}
	text := success(t, dir, "sources", "list", "--json")
	unmarshal(t, text, &list)
	if len(list.Sources) != 2 || list.Sources[0].LearnedSecrets != 1 || list.Sources[0].ArmedUntil != nil || list.Sources[1].LearnedSecrets != 0 {
		t.Errorf("listed: %+v", list)
	}
	table := success(t, dir, "sources", "list")
	if !strings.Contains(table, "body-hmac") || !strings.Contains(table, "sha256") {
		t.Errorf("the list does not show the schemes in use:\n%s", table)
	}
	text += table + g.api(t, "/api/v1/sources")
	g.stop(t, syscall.SIGTERM)
	if text += g.stderr.String(); strings.Contains(text, asanaSecret) {
		t.Errorf("the secret is shown:\n%s", text)
	}
	if !strings.Contains(g.stderr.String(), "hookonce sources arm asana") {
		t.Errorf("the log does not say how to take a secret:\n%s", g.stderr)
	}
}
