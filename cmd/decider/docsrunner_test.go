//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrydecider/decider/internal/budget/redistest"
)

// docsRunner runs the fenced blocks of one page, in order, in one shell, in an
// empty directory that holds bin/decider, with decider on the PATH.
//
//   - ```sh is run. Every command in it must succeed; with "sh exit=N" the last
//     one must exit with N.
//   - ```text or ```json next after it is what it writes to standard output
//     (sameText and sameJSON say what … stands for).
//   - ```LANG file=NAME is written to the file NAME first.
//   - ```sh norun is for the commands of docsElsewhere alone. `make run` is
//     started and serves the blocks after it; of `make test` it is checked that
//     the target exists.
//   - ``` of no language is a picture.
//
// Any other block is a mistake, for nothing would notice when it gets wrong.
//
// A port of 127.0.0.1 or localhost on the page stands for a free one here, so
// that the page may say 8080 wherever it is run.
type docsRunner struct {
	t    *testing.T
	root string // the repository
	dir  string // an empty directory
	bin  string // the decider to run

	ports    map[string]string // the page's to the real ones
	shell    *docsShell
	served   *exec.Cmd
	problems []string
}

// docsElsewhere are the commands that a page may name and that another test runs.
var docsElsewhere = map[string]func(*docsRunner) error{
	"make run":  (*docsRunner).startMakeRun,
	"make test": func(r *docsRunner) error { return r.hasTarget("test") },
}

const docsBlockLimit = 60 * time.Second

// run runs the page and returns what is wrong with it, each as LINE: TEXT.
func (r *docsRunner) run(page string) []string {
	blocks, err := docsBlocks(page)
	if err != nil {
		return []string{err.Error()}
	}
	if err := r.open(); err != nil {
		return []string{err.Error()}
	}
	defer r.close()
	for i := 0; i < len(blocks); i++ {
		var output *docsBlock
		if i+1 < len(blocks) && blocks[i].runs() && blocks[i+1].isOutput() {
			output = &blocks[i+1]
		}
		if err := r.block(&blocks[i], output); err != nil {
			r.problems = append(r.problems, fmt.Sprintf("%d: %v", blocks[i].line, err))
		}
		if output != nil {
			i++
		}
	}
	return r.problems
}

func (b *docsBlock) has(mark string) bool { _, ok := b.marks[mark]; return ok }
func (b *docsBlock) runs() bool           { return b.lang == "sh" && !b.has("norun") && !b.has("file") }
func (b *docsBlock) isOutput() bool {
	return (b.lang == "text" || b.lang == "json") && len(b.marks) == 0
}

func (r *docsRunner) open() error {
	r.ports = map[string]string{}
	bin := filepath.Join(r.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(r.bin, filepath.Join(bin, "decider")); err != nil {
		return err
	}
	var err error
	r.shell, err = newDocsShell(r.dir, []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"),
		"HOME=" + r.dir,
		"LANG=C.UTF-8",
		"DECIDER_LISTEN=" + r.real("127.0.0.1:8080"),
		"DECIDER_STORE_TIMEOUT=20s", // a busy machine is no lost store
	})
	return err
}

func (r *docsRunner) close() {
	r.shell.close()
	if r.served != nil {
		stopGroup(r.served)
	}
}

func (r *docsRunner) block(b, output *docsBlock) error {
	switch {
	case b.has("file"):
		return r.writeFile(b)
	case b.has("norun"):
		check, ok := docsElsewhere[strings.TrimSpace(b.text)]
		if !ok {
			return fmt.Errorf("norun is not for %q", strings.TrimSpace(b.text))
		}
		return check(r)
	case b.lang == "sh":
		return r.command(b, output)
	case b.lang == "":
		return nil
	case b.isOutput():
		return fmt.Errorf("this %s follows no sh block whose output it could be (a picture has no language)", b.lang)
	}
	return fmt.Errorf("nothing runs a block of %s", b.lang)
}

func (r *docsRunner) writeFile(b *docsBlock) error {
	name := b.marks["file"]
	if !filepath.IsLocal(name) {
		return fmt.Errorf("file=%s is not inside the directory", name)
	}
	text := r.real(b.text)
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func (r *docsRunner) command(b, output *docsBlock) error {
	done, err := r.shell.run(r.real(b.text))
	if err != nil {
		return err
	}
	wantExit := 0
	if mark, ok := b.marks["exit"]; ok {
		if wantExit, err = strconv.Atoi(mark); err != nil {
			return fmt.Errorf("exit=%s is no number", mark)
		}
	} else if done.failed != 0 {
		done.exit = done.failed
	}
	if done.exit != wantExit {
		return fmt.Errorf("exit %d, want %d\n%s%s", done.exit, wantExit, done.stdout, done.stderr)
	}
	if output == nil {
		return nil
	}
	return r.compare(output, done)
}

func (r *docsRunner) compare(want *docsBlock, done docsDone) (err error) {
	got := r.page(done.stdout)
	same := false
	if want.lang == "json" {
		same, err = sameJSON(want.text, got)
	} else {
		same = sameText(want.text, got)
	}
	if err != nil {
		return fmt.Errorf("%w\nit printed:\n%s%s", err, got, done.stderr)
	}
	if !same {
		return fmt.Errorf("line %d says that it prints\n%s\nit printed\n%s%s", want.line, want.text, got, done.stderr)
	}
	return nil
}

var docsAddress = regexp.MustCompile(`(127\.0\.0\.1|localhost):(\d{2,5})\b`)

// real is the page's text with a free port for each that it names.
func (r *docsRunner) real(text string) string {
	return docsAddress.ReplaceAllStringFunc(text, func(address string) string {
		host, port, _ := strings.Cut(address, ":")
		if r.ports[port] == "" {
			r.ports[port] = strconv.Itoa(redistest.FreePort(r.t))
		}
		return host + ":" + r.ports[port]
	})
}

// page is what was printed, with the page's ports again.
func (r *docsRunner) page(text string) string {
	return docsAddress.ReplaceAllStringFunc(text, func(address string) string {
		host, here, _ := strings.Cut(address, ":")
		for port, free := range r.ports {
			if free == here {
				return host + ":" + port
			}
		}
		return address
	})
}

// startMakeRun runs `make run` in the repository until the page ends.
func (r *docsRunner) startMakeRun() error {
	if err := r.hasTarget("run"); err != nil {
		return err
	}
	if r.served != nil {
		return errors.New("make run is running already")
	}
	listen := "127.0.0.1:" + r.ports["8080"]
	log := new(bytes.Buffer)
	cmd := exec.Command("make", "run")
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, log, log
	cmd.Env = append(withoutDecider(os.Environ()), "DECIDER_LISTEN="+listen)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := answersReady(listen, 3*time.Minute); err != nil {
		stopGroup(cmd)
		return fmt.Errorf("make run: %w\n%s", err, log)
	}
	r.served = cmd
	return nil
}

func answersReady(listen string, limit time.Duration) (err error) {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for until := time.Now().Add(limit); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		var response *http.Response
		if response, err = client.Get("http://" + listen + "/readyz"); err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		err = fmt.Errorf("/readyz answers %s", response.Status)
	}
	return fmt.Errorf("not ready after %s: %w", limit, err)
}

func withoutDecider(env []string) (rest []string) {
	for _, each := range env {
		if !strings.HasPrefix(each, "DECIDER_") && !strings.HasPrefix(each, "MAKE") {
			rest = append(rest, each)
		}
	}
	return rest
}

func (r *docsRunner) hasTarget(name string) error {
	makefile, err := os.ReadFile(filepath.Join(r.root, "Makefile"))
	if err != nil {
		return err
	}
	if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `:`).Match(makefile) {
		return fmt.Errorf("the Makefile has no target %s", name)
	}
	return nil
}

// docsShell is the one bash that runs a page's blocks, so that a variable, a
// directory or a process in the background lasts from one to the next.
type docsShell struct {
	cmd     *exec.Cmd
	stdin   *os.File
	done    *os.File
	lines   *bufio.Reader
	scratch string
	count   int
}

// docsDone is what became of a block.
type docsDone struct {
	exit           int // of its last command
	failed         int // of the last command that failed, or 0
	stdout, stderr string
}

func newDocsShell(dir string, env []string) (*docsShell, error) {
	scratch, err := os.MkdirTemp("", "docs-shell-")
	if err != nil {
		return nil, err
	}
	input, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	done, report, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir, cmd.Env, cmd.Stdin = dir, env, input
	cmd.ExtraFiles = []*os.File{report} // its descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	input.Close()
	report.Close()
	shell := &docsShell{cmd: cmd, stdin: stdin, done: done, lines: bufio.NewReader(done), scratch: scratch}
	_, err = fmt.Fprintln(stdin, `set -E; trap '__failed=$?' ERR`)
	return shell, err
}

// run runs one block and waits for its end, not for what it left in the background.
func (s *docsShell) run(script string) (done docsDone, err error) {
	s.count++
	base := filepath.Join(s.scratch, strconv.Itoa(s.count))
	if err := os.WriteFile(base+".sh", []byte(script), 0o600); err != nil {
		return done, err
	}
	_, err = fmt.Fprintf(s.stdin, "__failed=0; . %[1]s.sh >%[1]s.out 2>%[1]s.err </dev/null 3>&-; echo $? $__failed >&3\n", base)
	if err != nil {
		return done, fmt.Errorf("the shell has ended: %w", err)
	}
	if err := s.done.SetReadDeadline(time.Now().Add(docsBlockLimit)); err != nil {
		return done, err
	}
	line, err := s.lines.ReadString('\n')
	stdout, _ := os.ReadFile(base + ".out")
	stderr, _ := os.ReadFile(base + ".err")
	done.stdout, done.stderr = string(stdout), string(stderr)
	if err != nil {
		return done, fmt.Errorf("no end of the block: %w\n%s%s", err, stdout, stderr)
	}
	_, err = fmt.Sscan(line, &done.exit, &done.failed)
	return done, err
}

func (s *docsShell) close() {
	s.stdin.Close()
	stopGroup(s.cmd)
	s.done.Close()
	_ = os.RemoveAll(s.scratch)
}

// stopGroup ends a process and all that it started: politely, then for good.
func stopGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-ended
}
