package scale

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// service is a service of a compose file, with the keys that ours use.
type service struct {
	Image         string            `yaml:"image"`
	Command       []string          `yaml:"command"`
	User          string            `yaml:"user"`
	WorkingDir    string            `yaml:"working_dir"`
	EnvFile       string            `yaml:"env_file"`
	Environment   map[string]string `yaml:"environment"`
	Volumes       []string          `yaml:"volumes"`
	Ports         []string          `yaml:"ports"`
	ExtraHosts    []string          `yaml:"extra_hosts"`
	DependsOn     []string          `yaml:"depends_on"`
	Healthcheck   map[string]any    `yaml:"healthcheck"`
	ReadOnly      bool              `yaml:"read_only"`
	CapDrop       []string          `yaml:"cap_drop"`
	SecurityOpt   []string          `yaml:"security_opt"`
	StopGrace     string            `yaml:"stop_grace_period"`
	RestartPolicy string            `yaml:"restart"`
}

func readCompose(t *testing.T, name string) map[string]service {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "compose", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Gateway  service            `yaml:"x-gateway"`
		Services map[string]service `yaml:"services"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.DisallowUnknownField()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return file.Services
}

// The compose file of three gateways runs each as that of one gateway does, and has the gateways of haproxy.cfg.
func TestComposeOfGateways(t *testing.T) {
	t.Parallel()
	services, alone := readCompose(t, "gateways.yaml"), readCompose(t, "compose.yaml")["hookonce"]
	for _, name := range []string{"gateway1", "gateway2", "gateway3"} {
		s := services[name]
		if delay, err := time.ParseDuration(s.Environment["HOOKONCE_SHUTDOWN_DELAY"]); err != nil || delay != 5*time.Second {
			t.Errorf("%s: the shutdown delay is %s, error %v, want that of haproxy.cfg", name, delay, err)
		}
		s.Environment = nil
		s.Volumes, s.WorkingDir, s.Ports = alone.Volumes, alone.WorkingDir, alone.Ports // only SQLite needs them, and HAProxy has the ports
		if diff := cmp.Diff(alone, s); diff != "" {
			t.Errorf("%s (-compose.yaml +gateways.yaml)\n%s", name, diff)
		}
	}
	if len(services) != 4 || services["haproxy"].Image == "" {
		t.Errorf("the services are %+v", services)
	}
}

// Settings are mounted as folders. Editors put a new file in the place of the old one. If the file itself were mounted,
// a reload would read the old one.
func TestComposeMountsFolders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"compose.yaml", "gateways.yaml"} {
		for of, s := range readCompose(t, name) {
			config := "/usr/local/etc/haproxy/haproxy.cfg" // where the image of HAProxy looks
			if i := slices.Index(s.Command, "--config"); i >= 0 {
				config = s.Command[i+1]
			}
			mounted := func(v string) bool { return strings.HasSuffix(v, ":"+filepath.ToSlash(filepath.Dir(config))+":ro") }
			if !slices.ContainsFunc(s.Volumes, mounted) {
				t.Errorf("%s: %s mounts %q, and not the folder of %s", name, of, s.Volumes, config)
			}
		}
	}
}

// Objects of Kubernetes, with the fields that ours use.
type (
	object struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   metadata          `yaml:"metadata"`
		Data       map[string]string `yaml:"data"`
		Spec       yaml.MapSlice     `yaml:"spec"`
	}
	metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	}
	selector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	deployment struct {
		Replicas int            `yaml:"replicas"`
		Selector selector       `yaml:"selector"`
		Strategy map[string]any `yaml:"strategy"`
		Deadline int            `yaml:"progressDeadlineSeconds"`
		Template struct {
			Metadata metadata `yaml:"metadata"`
			Spec     struct {
				Grace           int              `yaml:"terminationGracePeriodSeconds"`
				Automount       bool             `yaml:"automountServiceAccountToken"`
				ServiceLinks    *bool            `yaml:"enableServiceLinks"`
				SecurityContext map[string]any   `yaml:"securityContext"`
				Spread          []map[string]any `yaml:"topologySpreadConstraints"`
				Containers      []container      `yaml:"containers"`
				Volumes         []map[string]any `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	}
	container struct {
		Name            string           `yaml:"name"`
		Image           string           `yaml:"image"`
		Args            []string         `yaml:"args"`
		EnvFrom         []map[string]any `yaml:"envFrom"`
		Env             []variable       `yaml:"env"`
		Ports           []port           `yaml:"ports"`
		Readiness       probe            `yaml:"readinessProbe"`
		Liveness        probe            `yaml:"livenessProbe"`
		Startup         probe            `yaml:"startupProbe"`
		Resources       resources        `yaml:"resources"`
		SecurityContext map[string]any   `yaml:"securityContext"`
		VolumeMounts    []map[string]any `yaml:"volumeMounts"`
	}
	variable struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	}
	resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	}
	port struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
		Port          int    `yaml:"port"`
		TargetPort    string `yaml:"targetPort"`
	}
	probe struct {
		HTTPGet struct {
			Path string `yaml:"path"`
			Port string `yaml:"port"`
		} `yaml:"httpGet"`
		Period   int `yaml:"periodSeconds"`
		Timeout  int `yaml:"timeoutSeconds"`
		Failures int `yaml:"failureThreshold"`
	}
	kubeService struct {
		Selector map[string]string `yaml:"selector"`
		Ports    []port            `yaml:"ports"`
	}
	budget struct {
		MaxUnavailable int      `yaml:"maxUnavailable"`
		Unhealthy      string   `yaml:"unhealthyPodEvictionPolicy"`
		Selector       selector `yaml:"selector"`
	}
)

// manifests reads the objects of deploy/kubernetes strictly.
func manifests(t *testing.T) map[string]object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "kubernetes", "hookonce.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]object)
	for decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()); ; {
		var o object
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[o.APIVersion+" "+o.Kind] = o
	}
}

// spec reads the spec of an object strictly into v.
func (o *object) spec(t *testing.T, v any) {
	t.Helper()
	text, err := yaml.Marshal(o.Spec)
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, v, yaml.DisallowUnknownField())
	}
	if err != nil {
		t.Fatalf("%s: %v", o.Kind, err)
	}
}

// checkMemory checks that Go knows the limit of memory, and that its garbage collector does not run all the time.
func (c *container) checkMemory(t *testing.T) {
	t.Helper()
	value := make(map[string]int) // in MiB, or percent
	for _, v := range append(c.Env, variable{"limit", c.Resources.Limits["memory"]}) {
		n, err := strconv.Atoi(strings.TrimRight(v.Value, "MiB"))
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		value[v.Name] = n
	}
	if most := value["limit"] * 9 / 10; value["GOMEMLIMIT"] == 0 || value["GOMEMLIMIT"] > most || value["GOGC"] < 400 {
		t.Errorf("the variables and the limit are %v, want GOMEMLIMIT up to %d and GOGC", value, most)
	}
}

// The manifests fit each other, the gateway's listeners, and the time that a stop takes.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	var (
		d deployment
		s kubeService
		b budget
	)
	for kind, v := range map[string]any{"apps/v1 Deployment": &d, "v1 Service": &s, "policy/v1 PodDisruptionBudget": &b} {
		o, found := all[kind]
		if !found || len(all) != 4 {
			t.Fatalf("the objects are %v, and one is not %s", all, kind)
		}
		o.spec(t, v)
	}
	labels := d.Template.Metadata.Labels
	for _, selected := range []map[string]string{d.Selector.MatchLabels, s.Selector, b.Selector.MatchLabels} {
		if diff := cmp.Diff(labels, selected); diff != "" {
			t.Errorf("a selector does not select the pods (-labels +selector)\n%s", diff)
		}
	}
	pod := d.Template.Spec
	c := pod.Containers[0]
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for probed, want := range map[probe]string{c.Readiness: "/readyz", c.Liveness: "/healthz", c.Startup: "/healthz"} {
		if probed.HTTPGet.Path != want || ports[probed.HTTPGet.Port] != 8081 {
			t.Errorf("a probe asks %+v, want %s on the admin listener", probed.HTTPGet, want)
		}
	}
	if ports[s.Ports[0].TargetPort] != 8080 {
		t.Errorf("the service leads to %+v", s.Ports)
	}

	settings := all["v1 ConfigMap"].Data["hookonce.yaml"]
	var read struct {
		Delay string `yaml:"shutdown_delay"`
	}
	if err := yaml.Unmarshal([]byte(settings), &read); err != nil {
		t.Fatal(err)
	}
	delay, err := time.ParseDuration(read.Delay)
	if grace := time.Duration(pod.Grace) * time.Second; err != nil || grace < max(30*time.Second, delay+20*time.Second) {
		t.Errorf("a stop takes up to 20 s after %s (error %v), and is cut off after %s", delay, err, grace)
	}
	if notice := time.Duration(c.Readiness.Failures*c.Readiness.Period) * time.Second; delay <= notice {
		t.Errorf("the gateway serves on for %s, which is not longer than the %s until a failing probe counts", delay, notice)
	}
	starting := time.Duration(c.Startup.Failures*c.Startup.Period) * time.Second
	if starting < 10*time.Minute {
		t.Errorf("a start is cut off after %s, and a migration may take longer", starting)
	}
	if deadline := time.Duration(d.Deadline) * time.Second; deadline <= starting {
		t.Errorf("a rollout counts as failed after %s, and a start may take %s", deadline, starting)
	}
	c.checkMemory(t)
	if pod.ServiceLinks == nil || *pod.ServiceLinks {
		t.Error("Kubernetes sets variables such as HOOKONCE_PORT for the services, and the gateway reads those with this prefix")
	}
	if keys := fmt.Sprint(pod.Spread[0]["matchLabelKeys"]); keys != "[pod-template-hash]" || b.Unhealthy != "AlwaysAllow" {
		t.Errorf("pods are spread by %s, and pods that are not ready are evicted by the policy %q", keys, b.Unhealthy)
	}
	if b.MaxUnavailable >= d.Replicas-1 {
		t.Errorf("of %d pods %d may be away, and no restart may find fewer than two", d.Replicas, b.MaxUnavailable)
	}

	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "hookonce.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	check := exec.Command(thisBuild(t), "config", "check")
	check.Dir = folder
	check.Env = []string{
		"DATABASE_URL=postgres://hookonce:x@db/hookonce", "GITHUB_WEBHOOK_SECRET=" + secret,
		"HOOKONCE_ADMIN_TOKEN=" + strings.Repeat("0f", 32),
	}
	if out, err := check.CombinedOutput(); err != nil || strings.Contains(string(out), "warning") {
		t.Errorf("config check: %v\n%s", err, out)
	}
}
