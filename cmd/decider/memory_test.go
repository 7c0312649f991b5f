package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// The limit is that of the container, whichever version of control groups it has
// and whichever group above it holds it.
func TestContainerMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing is known", nil, 0},
		{"version 2, in a container", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 536870912},
		{"version 2, no limit", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		{"version 2, of a slice above", map[string]string{"proc/self/cgroup": "0::/system.slice/decider.service\n",
			"sys/fs/cgroup/system.slice/decider.service/memory.max": "2000000\n", "sys/fs/cgroup/system.slice/memory.max": "1000000\n"}, 1000000},
		{"version 1", map[string]string{"proc/self/cgroup": "3:cpu:/x\n2:memory:/docker/1\n", "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "268435456\n"}, 268435456},
		{"version 1, as seen from within", map[string]string{"proc/self/cgroup": "2:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 268435456},
		{"version 1, no limit", map[string]string{"proc/self/cgroup": "2:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for name, text := range c.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := containerMemory(root); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// What the operator says of Go's memory stands.
func TestHeedMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	root := t.TempDir()
	for name, text := range map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000000\n"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := heedMemory(root, func(string) string { return "1GiB" }); got != before {
		t.Errorf("%d, want %d as it was", got, before)
	}
	if got := heedMemory(root, func(string) string { return "" }); got != 900_000_000 || debug.SetMemoryLimit(-1) != got {
		t.Errorf("%d, set %d", got, debug.SetMemoryLimit(-1))
	}
}

// So does what they say of collections.
func TestCollectSeldom(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for value, want := range map[string]int{"50": 100, "off": 100, "": gcPercent} {
		debug.SetGCPercent(100)
		collectSeldom(func(name string) string { return map[string]string{"GOGC": value}[name] })
		if got := debug.SetGCPercent(100); got != want {
			t.Errorf("GOGC=%q: %d, want %d", value, got, want)
		}
	}
}
