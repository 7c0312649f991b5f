package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// demo runs the processes.
type demo struct {
	plan                   plan
	deciderPath, redisPath string
	progress               io.Writer
	// policies is the deciders' policy file; "": their default policy.
	policies string

	directory string
	redisURL  string
	commands  []*exec.Cmd
	upstreams []*dependency
}

// result is what came of one fleet.
type result struct {
	fleet    fleet
	arrivals []arrived
	report   fleetReport
	// tokens were in the fleet's bucket when the outage began.
	tokens float64
	// returned is when the deciders answered again, since the start.
	returned time.Duration
}

// starting is how long the processes of the fleets have to start.
const starting = 2 * time.Second

func (d *demo) run(ctx context.Context, fleets []fleet) ([]*result, error) {
	if err := d.startRedis(ctx); err != nil {
		return nil, err
	}
	steady, err := d.startDeciders(ctx, nil)
	if err != nil {
		return nil, err
	}
	return d.runFleets(ctx, fleets, steady)
}

// runFleets plays the plan; the fleets that are told so have deciders of their
// own, which are killed.
func (d *demo) runFleets(ctx context.Context, fleets []fleet, steady []*decidingProcess) ([]*result, error) {
	var doomed []*decidingProcess
	var err error
	if slices.ContainsFunc(fleets, func(f fleet) bool { return f.Killed }) {
		if doomed, err = d.startDeciders(ctx, nil); err != nil {
			return nil, err
		}
	}
	start := time.Now().Add(starting)
	results := make([]*result, len(fleets))
	running := make([]*runningFleet, len(fleets))
	for i, f := range fleets {
		results[i] = &result{fleet: f}
		deciders := steady
		if f.Killed {
			deciders = doomed
		}
		if running[i], err = d.startFleet(ctx, f, i, start, deciders); err != nil {
			return nil, err
		}
	}
	if err := d.watch(ctx, start, results, steady, doomed); err != nil {
		return nil, err
	}
	for i, each := range running {
		if err := each.end(results[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// step is something at a time since the start: words, and what is done.
type step struct {
	at   time.Duration
	says string
	do   func() error
}

// kill is what is done to deciders that are to die.
func (d *demo) kill(ctx context.Context, start time.Time, results []*result, doomed []*decidingProcess) []step {
	outage := d.plan.Healthy
	return []step{
		{outage + d.plan.StallAt, "the deciders of one fleet stall", func() error { return signalAll(doomed, syscall.SIGSTOP) }},
		{outage + d.plan.KillAt, "they are killed", func() error { return signalAll(doomed, syscall.SIGKILL) }},
		{outage + d.plan.ReturnAt, "they are started again", func() error {
			if _, err := d.startDeciders(ctx, doomed); err != nil {
				return err
			}
			for _, each := range results {
				each.returned = time.Since(start)
			}
			return nil
		}},
	}
}

// watch waits for the end, tells how it goes, and does to the deciders what is planned.
func (d *demo) watch(ctx context.Context, start time.Time, results []*result, steady, doomed []*decidingProcess) error {
	fmt.Fprintf(d.progress, "%d fleets of %d processes and %.0f calls a second each; %s of health, %s of outage, %s of recovery\n",
		len(results), d.plan.PerFleet, d.plan.Rate, d.plan.Healthy, d.plan.Outage, d.plan.Recovery)
	outage := d.plan.Healthy
	steps := []step{
		{0, "the dependencies are well", nil},
		{outage - 200*time.Millisecond, "", func() error { return readTokens(ctx, results, steady, doomed) }},
		{outage, "the dependencies go down", nil},
		{outage + d.plan.Outage, "the dependencies are back", nil},
		{d.plan.total(), "the fleets stop", nil},
	}
	if doomed != nil {
		steps = slices.Insert(steps, 3, d.kill(ctx, start, results, doomed)...)
	}
	for _, step := range steps {
		for {
			left := time.Until(start.Add(step.at))
			if !sleep(ctx, min(left, 10*time.Second)) {
				return ctx.Err()
			}
			if left <= 10*time.Second {
				break
			}
			fmt.Fprintf(d.progress, "%5.0f s  …\n", time.Since(start).Seconds())
		}
		if step.says != "" {
			fmt.Fprintf(d.progress, "%5.0f s  %s\n", step.at.Seconds(), step.says)
		}
		if step.do != nil {
			if err := step.do(); err != nil {
				return err
			}
		}
	}
	return nil
}

// startRedis starts a Redis that keeps nothing.
func (d *demo) startRedis(ctx context.Context) (err error) {
	if d.directory, err = os.MkdirTemp("", "decider-demo-"); err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(address)
	d.redisURL = "redis://" + address
	if _, err := d.start(ctx, nil, d.redisPath, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", d.directory); err != nil {
		return err
	}
	return until(ctx, "redis-server", func() bool {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// decidingProcess is one decider.
type decidingProcess struct {
	address string
	command *exec.Cmd
}

func (p *decidingProcess) url() string { return "http://" + p.address }

// startDeciders starts two deciders on one Redis, or those that died again.
func (d *demo) startDeciders(ctx context.Context, dead []*decidingProcess) ([]*decidingProcess, error) {
	const two = 2
	for len(dead) < two {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		dead = append(dead, &decidingProcess{address: address})
	}
	for _, each := range dead {
		args := []string{"serve", "--listen", each.address, "--redis-url", d.redisURL, "--log-level", "ERROR", "--replicas", "2"}
		if d.policies != "" {
			args = append(args, "--policies", d.policies, "--store-timeout", patience.String())
		}
		command, err := d.start(ctx, nil, d.deciderPath, args...)
		if err != nil {
			return nil, err
		}
		each.command = command
	}
	for _, each := range dead {
		if err := until(ctx, "decider", func() bool { return answers(ctx, each.url()+"/readyz") }); err != nil {
			return nil, err
		}
	}
	return dead, nil
}

func signalAll(deciders []*decidingProcess, s syscall.Signal) error {
	for _, each := range deciders {
		if err := each.command.Process.Signal(s); err != nil {
			return err
		}
	}
	return nil
}

func answers(ctx context.Context, url string) bool {
	return readJSON(ctx, url, nil) == nil
}

func readJSON(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("%s: %s", url, response.Status))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// readTokens reads what the fleets' buckets hold, for the formula.
func readTokens(ctx context.Context, results []*result, steady, doomed []*decidingProcess) error {
	for i, each := range results {
		deciders := steady
		if each.fleet.Killed {
			deciders = doomed
		}
		if each.fleet.Rule != asking {
			each.tokens = float64(each.fleet.Clients * burst)
			continue
		}
		var state struct {
			Budget struct {
				Tokens float64 `json:"tokens"`
			} `json:"budget"`
		}
		if err := readJSON(ctx, deciders[0].url()+"/v1/dependencies/"+dependencyName(i), &state); err != nil {
			return err
		}
		each.tokens = state.Budget.Tokens
	}
	return nil
}

func dependencyName(fleet int) string { return fmt.Sprintf("demo-%d", fleet) }

// runningFleet is a fleet's processes and what they call.
type runningFleet struct {
	upstream *dependency
	outputs  []*bytes.Buffer
	commands []*exec.Cmd
}

func (d *demo) startFleet(ctx context.Context, f fleet, index int, start time.Time, deciders []*decidingProcess) (*runningFleet, error) {
	upstream, err := newDependency(&d.plan, start, f.Fails)
	if err != nil {
		return nil, err
	}
	d.upstreams = append(d.upstreams, upstream)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	running := &runningFleet{upstream: upstream}
	rate := cmp.Or(f.Rate, d.plan.Rate)
	for i := range d.plan.PerFleet {
		config, err := json.Marshal(fleetConfig{
			Rule: f.Rule, Clients: f.Clients / d.plan.PerFleet, Rate: rate / float64(d.plan.PerFleet), Upstream: upstream.url,
			Decider: deciders[i%len(deciders)].url(), Dependency: dependencyName(index), Start: start, Length: d.plan.total(), AskTimeout: d.plan.AskTimeout, Named: f.Named,
			Seed: uint64(index*d.plan.PerFleet + i),
		})
		if err != nil {
			return nil, err
		}
		out := new(bytes.Buffer)
		command, err := d.start(ctx, out, self, "fleet", string(config))
		if err != nil {
			return nil, err
		}
		running.outputs, running.commands = append(running.outputs, out), append(running.commands, command)
	}
	return running, nil
}

// end waits for the fleet and takes what it tells.
func (r *runningFleet) end(into *result) error {
	for i, each := range r.commands {
		if err := each.Wait(); err != nil {
			return fmt.Errorf("a process of fleet %q: %w", into.fleet.Name, err)
		}
		var told fleetReport
		if err := json.Unmarshal(r.outputs[i].Bytes(), &told); err != nil {
			return err
		}
		into.report.Calls = append(into.report.Calls, told.Calls...)
		into.report.Asked = append(into.report.Asked, told.Asked...)
		into.report.Alone = append(into.report.Alone, told.Alone...)
		into.report.Degraded += told.Degraded
	}
	r.upstream.mu.Lock()
	defer r.upstream.mu.Unlock()
	into.arrivals = r.upstream.arrivals
	return nil
}

// start starts a process whose input ends with this one.
func (d *demo) start(ctx context.Context, out io.Writer, name string, args ...string) (*exec.Cmd, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Stdout = out
	if strings.HasSuffix(name, "decider") {
		command.Stderr = d.progress
	}
	if out != nil {
		if _, err := command.StdinPipe(); err != nil {
			return nil, err
		}
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d.commands = append(d.commands, command)
	return command, nil
}

// stop ends every process that was started, and removes what they left.
func (d *demo) stop() {
	for _, each := range d.commands {
		_ = each.Process.Kill()
	}
	for _, each := range d.commands {
		_ = each.Wait() // it was killed, or has been waited for
	}
	for _, each := range d.upstreams {
		each.close()
	}
	if d.directory != "" {
		_ = os.RemoveAll(d.directory)
	}
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// until waits at most 10 s for something to be so.
func until(ctx context.Context, what string, so func() bool) error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if so() {
			return nil
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s did not start within 10 s", what)
}
