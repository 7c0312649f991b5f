//go:build linux

package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const composeFile = root + "/docker-compose.yml"

// compose runs whichever Compose there is: it reads the file, and needs no engine.
func compose(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"-f", composeFile}, args...)
	if _, err := exec.LookPath("docker-compose"); err == nil {
		return runs(t, "docker-compose", args...)
	}
	return runs(t, "docker", append([]string{"compose"}, args...)...)
}

type service struct {
	Image    string
	Profiles []string
	Volumes  []any
	Ports    []any
	ReadOnly bool `json:"read_only"`
	User     string
	CapDrop  []string `json:"cap_drop"`
}

// Prometheus and Grafana come with the profile alone, in versions that are
// named, and all that they mount is there.
func TestCompose(t *testing.T) {
	t.Parallel()
	with := strings.Fields(compose(t, "--profile", "monitoring", "config", "--services"))
	for _, name := range []string{"prometheus", "grafana", "decider-a", "decider-b", "redis"} {
		if !slices.Contains(with, name) {
			t.Errorf("with the profile there is no %s, but %v", name, with)
		}
	}
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal([]byte(readFile(t, composeFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prometheus", "grafana"} {
		s := file.Services[name]
		if !regexp.MustCompile(`:v?\d+\.\d+\.\d+$`).MatchString(s.Image) {
			t.Errorf("%s: the image %s is of no certain version", name, s.Image)
		}
		if !slices.Equal(s.Profiles, []string{"monitoring"}) || !s.ReadOnly || s.User == "" || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: %+v", name, s)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port.(string), "127.0.0.1:") {
				t.Errorf("%s: others reach %v", name, port)
			}
		}
		for _, volume := range s.Volumes {
			path, _, _ := strings.Cut(volume.(string), ":")
			if _, err := os.Stat(filepath.Join(root, path)); err != nil || !strings.HasSuffix(volume.(string), ":ro") {
				t.Errorf("%s: %v (%v)", name, volume, err)
			}
		}
	}
}

// What Compose 1.29 does not know is not in the file.
func TestComposeIsForOldOnesToo(t *testing.T) {
	text := readFile(t, composeFile)
	for _, word := range []string{`(?m)^name:`, `(?m)^version:`, `(?m)^include:`, `start_interval:`, `(?m)^ +restart: true`, `(?m)^configs:`, `(?m)^secrets:`, `env_file:`} {
		if found := regexp.MustCompile(word).FindString(text); found != "" {
			t.Errorf("it says %q", found)
		}
	}
}

// Grafana finds its data source and its dashboards where Compose mounts them.
func TestProvisioning(t *testing.T) {
	var sources struct {
		Datasources []struct{ UID, Type, URL string }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, root+"/deploy/compose/grafana/datasources/prometheus.yaml")), &sources); err != nil {
		t.Fatal(err)
	}
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("%+v", sources)
	}
	var dashboards struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, root+"/deploy/compose/grafana/dashboards/decider.yaml")), &dashboards); err != nil {
		t.Fatal(err)
	}
	if len(dashboards.Providers) != 1 || dashboards.Providers[0].Options.Path != "/etc/grafana/dashboards" {
		t.Errorf("%+v", dashboards)
	}
	if text := readFile(t, composeFile); !strings.Contains(text, "./deploy/grafana:/etc/grafana/dashboards:ro") {
		t.Error("the dashboards are mounted elsewhere")
	}
}
