//go:build unix

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// page joins the lines of a page, whose fences are written with quotes.
func page(lines ...string) string {
	return strings.ReplaceAll(strings.Join(lines, "\n"), "'''", "```")
}

func TestDocsRunner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		page string
		want string // the beginning of the one problem; "" for none
	}{
		{"no blocks", page("# Title"), ""},
		{"output as said", page("'''sh", "echo one; echo two", "'''", "It prints:", "'''text", "one", "two", "'''"), ""},
		{"other output", page("'''sh", "echo one", "'''", "'''text", "two", "'''"), "2: line 5 says that it prints\ntwo"},
		{"output that is cut short", page("'''sh", "echo one; echo two", "'''", "'''text", "one", "'''"), "2: line 5 says"},
		{"JSON in another layout", page("'''sh", `echo '{"b":1,"a":"x"}'`, "'''", "'''json", `{"a": "x",`, ` "b": 1}`, "'''"), ""},
		{"other JSON", page("'''sh", `echo '{"a":1}'`, "'''", "'''json", `{"a": 2}`, "'''"), "2: line 5 says"},
		{"output that is not JSON", page("'''sh", `echo oops`, "'''", "'''json", `{"a": 2}`, "'''"), "2: the real output is not JSON"},
		{"standard error is not output", page("'''sh", "echo one; echo two >&2", "'''", "'''text", "one", "'''"), ""},
		{"a command fails in the middle", page("'''sh", "false", "echo on", "'''"), "2: exit 1, want 0"},
		{"a command may fail where it is caught", page("'''sh", "false || echo caught", "'''", "'''text", "caught", "'''"), ""},
		{"the exit that is said", page("'''sh exit=3", "(exit 3)", "'''"), ""},
		{"another exit than is said", page("'''sh exit=3", "true", "'''"), "2: exit 0, want 3"},
		{"an exit of no number", page("'''sh exit=many", "true", "'''"), "2: exit=many is no number"},
		{"the shell is left", page("'''sh", "exit 0", "'''"), "2: no end of the block"},
		{"variables last", page("'''sh", "word=kept", "'''", "'''sh", "echo $word", "'''", "'''text", "kept", "'''"), ""},
		{"a file", page("'''yaml file=sub/a.yaml", "a: 1", "'''", "'''sh", "cat sub/a.yaml", "'''", "'''text", "a: 1", "'''"), ""},
		{"a file elsewhere", page("'''yaml file=../a.yaml", "a: 1", "'''"), "2: file=../a.yaml is not inside"},
		{"a clean environment", page("'''sh", "env | grep -c ^DECIDER_; ls; basename $(command -v decider)", "'''", "'''text", "2", "bin", "decider", "'''"), ""},
		{"ports stand for free ones", page("'''sh", "echo localhost:8080 127.0.0.1:9 127.0.0.1:6379", "test 127.0.0.1:6379 != 127.0.0.1:$(printf 63; printf 79)", "'''",
			"'''text", "localhost:8080 127.0.0.1:9 127.0.0.1:6379", "'''"), ""},
		{"a picture", page("'''", "a -> b", "'''"), ""},
		{"output of nothing", page("'''text", "one", "'''"), "2: this text follows no sh block"},
		{"a second output", page("'''sh", "echo one", "'''", "'''text", "one", "'''", "'''text", "one", "'''"), "8: this text follows no sh block"},
		{"a language that nothing runs", page("'''python", "print(1)", "'''"), "2: nothing runs a block of python"},
		{"norun for what may be", page("'''sh norun", "make test", "'''"), ""},
		{"norun for something else", page("'''sh norun", "rm -r x", "'''"), `2: norun is not for "rm -r x"`},
		{"a fence never closed", page("'''sh", "true"), "2: the block is never closed"},
		{"a block in a list", page("1. so:", "   '''sh", "   echo one", "   '''", "   '''text", "   one", "   '''"), ""},
		{"what is left in the background", page("'''sh", "sleep 1000 &", "'''", "'''sh", "kill -0 $!", "'''"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := docsRunner{t: t, root: "../..", dir: t.TempDir(), bin: "/bin/true"}
			problems := strings.Join(r.run(c.page), "\n")
			if c.want == "" && problems != "" || !strings.HasPrefix(problems, c.want) {
				t.Errorf("problems: %q, want %q", problems, c.want)
			}
		})
	}
}

func TestDocsRunnerMissesTarget(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "Makefile"), []byte("testing:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"make run", "make test"} {
		r := docsRunner{t: t, root: root, dir: t.TempDir(), bin: "/bin/true"}
		problems := r.run(page("'''sh norun", command, "'''"))
		if len(problems) != 1 || !strings.Contains(problems[0], "has no target") {
			t.Errorf("%s: problems %q", command, problems)
		}
	}
}

func TestDocsSameText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"one\n", "one\n", true},
		{"one\n", "one \n\n", true},
		{"one\n", " one\n", false},
		{"", "", true},
		{"", "one\n", false},
		{"took … ms\n", "took 17 ms\n", true},
		{"took … ms\n", "took 17\nms\n", false},
		{"a.c\n", "abc\n", false},
		{"one\n…\nfour\n", "one\ntwo\nthree\nfour\n", true},
		{"one\n…\nfour\n", "one\nfour\n", true},
		{"one\n…\n", "one\ntwo\nthree\n", true},
		{"one\n…\nfour\n", "one\ntwo\n", false},
	} {
		if same := sameText(c.want, c.got); same != c.same {
			t.Errorf("sameText(%q, %q) = %t", c.want, c.got, same)
		}
	}
}

func TestDocsSameJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{`{"a":1}`, `{ "a" : 1 }`, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":1, …}`, `{"a":1,"b":{"c":2}}`, true},
		{`{…}`, `{"a":1}`, true},
		{`{"a":…}`, `{"a":[1]}`, true},
		{`{"a":"…"}`, `{"a":"x"}`, true},
		{`{"a":…,"b":2}`, `{"a":1,"b":3}`, false},
		{`{"a":"took … ms"}`, `{"a":"took 3 ms"}`, true},
		{`{"a":"took … ms"}`, `{"a":"took 3 s"}`, false},
		{`{"a":"say \"…\" {"}`, `{"a":"say \"x\" {"}`, true},
		{`[1,…]`, `[1,2,3]`, true},
		{`[1,…]`, `[1]`, true},
		{`[2,…]`, `[1,2,3]`, false},
		{`[1,2]`, `[1,2,3]`, false},
		{`[1,{"a":…}]`, `[1,{"a":null}]`, true},
		{`1.50`, `1.5`, false},
		{"{\"a\":1}\n{\"a\":2}", "{\"a\":1}\n{\"a\":2}\n", true},
		{"{\"a\":1}", "{\"a\":1}\n{\"a\":2}\n", false},
		{`null`, `null`, true},
		{`true`, `"true"`, false},
	} {
		same, err := sameJSON(c.want, c.got)
		if err != nil || same != c.same {
			t.Errorf("sameJSON(%s, %s) = %t, %v", c.want, c.got, same, err)
		}
	}
}
