//go:build linux

package deploytest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The unit is one that systemd takes, and closes what decider has no use for.
func TestUnit(t *testing.T) {
	const program = "/usr/local/bin/decider"
	text := readFile(t, root+"/deploy/systemd/decider.service")
	if !strings.Contains(text, "ExecStart="+program+" serve\n") {
		t.Fatalf("it does not start %s", program)
	}
	// Where decider is on this machine: systemd looks whether it can be run.
	unit := write(t, "decider.service", strings.ReplaceAll(text, program, decider))
	if out, err := tries(t, "systemd-analyze", "verify", unit); err != nil || strings.Contains(out, "decider.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out := runs(t, "systemd-analyze", "security", "--offline=true", "--no-pager", unit)
	m := regexp.MustCompile(`exposure level for decider.service: ([\d.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no level in\n%s", out)
	}
	if level, err := strconv.ParseFloat(m[1], 64); err != nil || level > 1.5 {
		t.Errorf("it is exposed at a level of %s (0 is closed, 10 is open)\n%s", m[1], out)
	}
}
