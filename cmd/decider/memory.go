package main

import (
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is the part of the container's memory that Go may fill before it
// collects harder; the rest is for what Go does not count.
const memoryShare = 0.9

// gcPercent is how much may be allocated between two collections, in percent of
// what is in use. What decider keeps is small and what a request allocates is
// garbage when it is answered, so that Go's own 100 would collect dozens of times
// a second at full load: with this it answers 1 to 4 % more, in 6 MiB more.
const gcPercent = 250

// collectSeldom sets Go's GOGC to that, unless the operator says something.
func collectSeldom(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// heedMemory sets Go's soft limit of memory to what the container has, unless
// GOMEMLIMIT says something, and returns it; 0: there is none. (GOMAXPROCS heeds
// the container by itself.)
func heedMemory(root string, getenv func(string) string) int64 {
	if getenv("GOMEMLIMIT") != "" {
		return debug.SetMemoryLimit(-1)
	}
	limit := containerMemory(root)
	if limit == 0 {
		return 0
	}
	limit = int64(float64(limit) * memoryShare)
	debug.SetMemoryLimit(limit)
	return limit
}

// containerMemory is the least limit of the process's control group and of those
// above it, in bytes; 0: none. root is "" but in tests.
func containerMemory(root string) (least int64) {
	groups, err := os.ReadFile(root + "/proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		base, file := "/sys/fs/cgroup", "memory.max"
		if controllers == "memory" { // version 1
			base, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if controllers != "" {
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			if limit := readLimit(root + path.Join(base, group, file)); limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// unlimited is what version 1 writes for no limit, and anything near it.
const unlimited = 1 << 60

func readLimit(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit >= unlimited { // "max" is no number
		return 0
	}
	return limit
}
