package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// load is what is asked of a server.
type load struct {
	connections, seconds int
	// dependencies and callers are how many names take turns; 0: one.
	dependencies, callers int
	// items are the attempts of one request; 0: one, and no batch.
	items int
}

// sample is what one run of wrk measured.
type sample struct {
	// PerSecond are decisions, not requests; P50 to Max are those of requests.
	PerSecond float64 `json:"decisions_per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	// Answered is the part of requests that was answered 200.
	Answered float64 `json:"answered"`
	// CPU is what the server and its store used for a decision, in microseconds.
	CPU float64 `json:"cpu_us_per_decision"`
	// Commands are what clients sent to Redis for a decision: scripts, not what
	// they call.
	Commands float64 `json:"redis_commands_per_decision"`
	// Degraded is the part of a decider's decisions that a local rule made because
	// Redis did not answer in time.
	Degraded float64 `json:"degraded"`
}

// wrkResult is the line that the script prints.
type wrkResult struct {
	Seconds, Requests     float64
	P50                   float64 `json:"p50_us"`
	P99                   float64 `json:"p99_us"`
	Max                   float64 `json:"max_us"`
	Broken, Refused, Late float64
}

// measure runs wrk against a server.
func (l *lab) measure(ctx context.Context, s *server, w load) (sample, error) {
	peer := s.peer
	if w.items > 0 {
		peer = "batch"
	}
	before := s.spent(ctx)
	wrk := exec.CommandContext(ctx, "wrk", "-t1", fmt.Sprintf("-c%d", w.connections), fmt.Sprintf("-d%ds", w.seconds), "-s", l.script(), "http://"+s.address) //nolint:gosec // of addresses of its own
	wrk.Env = append(os.Environ(), fmt.Sprintf("DEPENDENCIES=%d", max(w.dependencies, 1)), fmt.Sprintf("CALLERS=%d", max(w.callers, 1)),
		fmt.Sprintf("ITEMS=%d", max(w.items, 1)), "PEER="+peer)
	out, err := wrk.CombinedOutput()
	if err != nil {
		return sample{}, fmt.Errorf("wrk against %s: %w: %s", s.name, err, out)
	}
	after := s.spent(ctx)
	result, err := readWrk(out)
	if err != nil {
		return sample{}, fmt.Errorf("wrk against %s: %w", s.name, err)
	}
	return result.sample(w, spent{after.cpu - before.cpu, after.commands - before.commands, after.degraded - before.degraded}), nil
}

// readWrk finds the script's line in what wrk printed.
func readWrk(out []byte) (r wrkResult, err error) {
	for line := range bytes.Lines(out) {
		if text, ok := bytes.CutPrefix(line, []byte("RESULT ")); ok {
			err = json.Unmarshal(text, &r)
			return r, err
		}
	}
	return r, fmt.Errorf("no result in %q", out)
}

// sample turns wrk's numbers into decisions. A server that answers nothing is
// still being waited for by every connection, which wrk does not count.
func (r wrkResult) sample(w load, used spent) sample {
	items := float64(max(w.items, 1))
	good := r.Requests - r.Refused
	asked := max(r.Requests+r.Broken+r.Late, float64(w.connections))
	s := sample{P50: r.P50 / 1000, P99: r.P99 / 1000, Max: r.Max / 1000, Answered: good / asked}
	if decisions := good * items; decisions > 0 {
		s.PerSecond = decisions / r.Seconds
		s.CPU = float64(used.cpu.Microseconds()) / decisions
		s.Commands = used.commands / decisions
		s.Degraded = min(used.degraded/decisions, 1)
	}
	return s
}

// spent is what a server and its store have used, the commands that the store was
// sent, and the decisions that were made without it.
type spent struct {
	cpu                time.Duration
	commands, degraded float64
}

func (s *server) spent(ctx context.Context) spent {
	used := spent{cpu: s.cpu()}
	if s.store != nil {
		used.cpu += s.store.cpu()
		used.commands = commandsOf(s.store.address)
		if s.peer == "decider" {
			used.degraded = s.degraded(ctx)
		}
	}
	return used
}

// degraded reads of a decider's metrics how many decisions were made without the store.
func (s *server) degraded(ctx context.Context) (sum float64) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/metrics", nil)
	if err != nil {
		return 0
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "decider_degraded_decisions_total{"); ok {
			_, value, _ := strings.Cut(rest, "} ")
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return sum
}

// commandsOf asks Redis how many commands it was sent. What a script calls counts
// there like what a client sends, so those are counted that decider and
// ratelimit send; one that does not answer has been sent none.
func commandsOf(address string) (commands float64) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("INFO commandstats\r\nQUIT\r\n")); err != nil {
		return 0
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		commands += callsIn(lines.Text())
	}
	return commands
}

// callsIn reads "cmdstat_evalsha:calls=12,usec=…" of the commands that clients send.
func callsIn(line string) float64 {
	for _, command := range []string{"evalsha", "eval", "incrby", "expire"} {
		rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls=")
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseFloat(text, 64)
		if err == nil {
			return calls
		}
	}
	return 0
}
