package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// machine is where it was measured: numbers mean little without.
type machine struct {
	Processor string    `json:"processor"`
	Cores     int       `json:"cores"`
	MemoryGiB int       `json:"memory_gib"`
	Kernel    string    `json:"kernel"`
	Go        string    `json:"go"`
	Redis     string    `json:"redis"`
	Load      string    `json:"load_average_before"`
	At        time.Time `json:"at"`
}

func thisMachine() machine {
	m := machine{Processor: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(), At: time.Now().UTC().Truncate(time.Second), Kernel: firstWord("/proc/sys/kernel/osrelease"), Load: firstWord("/proc/loadavg")}
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.Processor = strings.TrimSpace(value)
			break
		}
	}
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) == nil {
		m.MemoryGiB = int(info.Totalram * uint64(info.Unit) >> 30)
	}
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		for _, word := range strings.Fields(string(out)) {
			if version, ok := strings.CutPrefix(word, "v="); ok {
				m.Redis = version
			}
		}
	}
	return m
}

func firstWord(file string) string {
	text, _ := os.ReadFile(file)
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return "unknown"
	}
	return words[0]
}

func (m *machine) String() string {
	return fmt.Sprintf("%s, %d cores, %d GiB, Linux %s, %s, Redis %s, load average %s before the run, %s",
		m.Processor, m.Cores, m.MemoryGiB, m.Kernel, m.Go, m.Redis, m.Load, m.At.Format(time.DateOnly))
}
