package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustParse(t testing.TB, text string) *Set {
	t.Helper()
	set, err := Parse("auth.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestNewKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		key := NewKey()
		if !looksLikeKey(key) || seen[key] {
			t.Fatalf("%q, seen before: %v", key, seen[key])
		}
		bits, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(key, keyPrefix))
		if err != nil || len(bits) != 32 {
			t.Fatalf("%d bytes, %v", len(bits), err)
		}
		seen[key] = true
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	old, next, other := NewKey(), NewKey(), NewKey()
	set := mustParse(t, "version: 1\r\nidentities:\r\n  checkout:\r\n    keys: ["+Digest(old)+", '"+Digest(next)+"']\r\n    roles: [report]\r\n"+
		"    dependencies: [payments, \"search-*\"]\r\n  ops:\n    certificates: [ops.internal, 'spiffe://prod/ops']\n    keys:\n      - "+Digest(other)+
		"\n    roles: [read, operate]\n    requests_per_second: 0.5\n    concurrent: 2\n")
	for _, key := range []string{old, next} {
		who, ok := set.ByKey(key)
		if !ok || who.Name() != "checkout" || !who.Has(Report) || who.Has(Read) || who.Has(Operate) {
			t.Errorf("%v %+v", ok, who)
		}
	}
	who, ok := set.ByKey(other)
	if !ok || who.Name() != "ops" || !slices.Equal(who.Roles(), []string{"read", "operate"}) || !who.MayTouch("whatever") || who.most != 2 {
		t.Errorf("%v %+v", ok, who)
	}
	for _, bad := range []string{"", "dcd_", NewKey(), old[:len(old)-1], old + "a", strings.ToUpper(old), " " + old, Digest(old)} {
		if who, ok := set.ByKey(bad); ok {
			t.Errorf("%q is that of %s", bad, who.Name())
		}
	}
	spiffe, err := url.Parse("spiffe://prod/ops")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cert *x509.Certificate
		name string
	}{
		{&x509.Certificate{DNSNames: []string{"other", "ops.internal"}}, "ops"},
		{&x509.Certificate{URIs: []*url.URL{spiffe}}, "ops"},
		{&x509.Certificate{DNSNames: []string{"ops.internal.evil"}}, ""},
		{&x509.Certificate{}, ""},
	} {
		who, ok := set.ByCertificate(c.cert)
		if ok != (c.name != "") || ok && who.Name() != c.name {
			t.Errorf("%v: %v %v", c.cert.DNSNames, who, ok)
		}
	}
}

// Each wrong file is refused whole, at its places, and no message repeats what
// may be a secret.
func TestMistakes(t *testing.T) {
	t.Parallel()
	key := NewKey()
	sum := Digest(key)
	for _, c := range []struct {
		name, text string
		want       []string // place and a part of the message
	}{
		{"nothing", "", []string{"1:1: the file says nothing"}},
		{"no mapping", "- 1", []string{"1:1: an auth file is one mapping"}},
		{"two documents", "version: 1\n---\nversion: 1\n", []string{"3:1: an auth file is one mapping"}},
		{"not YAML", "version: [1", []string{": this is not YAML"}},
		{"no version", "identities: {}", []string{`1:1: the file must say "version: 1"`}},
		{"another version", "version: 2", []string{"1:10: version must be 1"}},
		{"unknown words", "version: 1\nusers: {}\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [read], role: x}\n", []string{`2:1: unknown word "users"`, `unknown word "role"`}},
		{"a key itself", "version: 1\nidentities:\n  a:\n    keys: [" + key + "]\n    roles: [read]\n", []string{"4:12: this is a key itself"}},
		{"a key as a word", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [read], " + key + ": 1}\n", []string{"unknown word a text that may be a secret"}},
		{"a key as a role", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [" + key + "]}\n", []string{"unknown role a text that may be a secret"}},
		{"a short digest", "version: 1\nidentities:\n  a:\n    keys: [\"sha256:00\"]\n    roles: [read]\n", []string{"4:12: a key is written sha256:"}},
		{"no digits", "version: 1\nidentities:\n  a:\n    keys: [\"sha256:" + strings.Repeat("x", 64) + "\"]\n    roles: [read]\n", []string{"4:12: a key is written sha256:"}},
		{"one key of two", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [read]}\n  b: {keys: [\"" + sum + "\"], roles: [read]}\n", []string{`4:14: this key is already that of "a"`}},
		{"one certificate of two", "version: 1\nidentities:\n  a: {certificates: [x], roles: [read]}\n  b: {certificates: [x, \"*.y\"], roles: [read]}\n", []string{`4:22: this certificate is already that of "a"`, "4:25: a certificate is named"}},
		{"nothing to be known by", "version: 1\nidentities:\n  a: {roles: [read]}\n", []string{`3:3: "a" has neither keys nor certificates`}},
		{"no roles", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"]}\n", []string{`3:3: "a" has no roles`}},
		{"empty lists", "version: 1\nidentities:\n  a: {keys: [], roles: [], dependencies: []}\n", []string{"keys must be a list", "roles must be a list", "dependencies must be a list"}},
		{"no lists", "version: 1\nidentities:\n  a: {keys: x, roles: read, dependencies: {}}\n", []string{"keys must be a list", "roles must be a list", "dependencies must be a list"}},
		{"no texts", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [read, [operate], null]}\n", []string{"roles must be a list of texts", "roles must be a list of texts"}},
		{"twice", "version: 1\nversion: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [read], roles: [operate]}\n", []string{`2:1: "version" stands here twice`, `"roles" stands here twice`}},
		{"bad name", "version: 1\nidentities:\n  \"a b\": {keys: [\"" + sum + "\"], roles: [read]}\n", []string{"3:3: a name is"}},
		{"no identity", "version: 1\nidentities:\n  a: 1\n  b:\n", []string{`3:3: "a" must be a mapping`, `4:3: "b" must be a mapping`}},
		{"no identities", "version: 1\nidentities: []\n", []string{"2:13: identities must be a mapping"}},
		{"bad dependency", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [report], dependencies: [\"a b\"]}\n", []string{"a dependency is"}},
		{"bad limits", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [read], requests_per_second: 0, concurrent: 1.5}\n", []string{"requests_per_second must be a number above 0", "concurrent must be a whole number"}},
		{"bad numbers", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [read], requests_per_second: .nan, concurrent: many}\n", []string{"requests_per_second must be a number above 0", "concurrent must be a number above 0"}},
		{"an alias", "version: 1\nidentities:\n  a: {keys: [\"" + sum + "\"], roles: [report], dependencies: [*]}\n", []string{"a pattern that begins with * needs quotes"}},
		{"an anchor", "version: &v 1\n", []string{"1:10: anchors"}},
		{"deep", "version: " + strings.Repeat("[", 100_000), []string{"too deep"}},
		{"deep blocks", "version:\n" + deepBlocks(400), []string{"too deep"}},
		{"large", strings.Repeat("#", maxFileBytes+1), []string{"1:1: the file is not UTF-8 text of at most"}},
		{"not UTF-8", "version: \xff", []string{"1:1: the file is not UTF-8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			set, err := Parse("auth.yaml", []byte(c.text))
			var wrong *Error
			if set != nil || !errors.As(err, &wrong) {
				t.Fatalf("%v, %v", set, err)
			}
			if len(wrong.Mistakes) != len(c.want) {
				t.Errorf("%d mistakes, want %d:\n%v", len(wrong.Mistakes), len(c.want), err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), key) || strings.Contains(err.Error(), sum) {
				t.Errorf("a secret in %v", err)
			}
		})
	}
}

func deepBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"payments", "payments", true}, {"payments", "payments2", false}, {"payments", "Payments", false},
		{"search-*", "search-eu", true}, {"search-*", "search-", true}, {"search-*", "research-eu", false},
		{"*", "anything", true}, {"*-eu", "search-eu", true}, {"*-eu", "search-eu2", false},
		{"a*b*c", "a1b2c", true}, {"a*b*c", "abc", true}, {"a*b*c", "ac", false}, {"a*a", "a", false}, {"a**b", "ab", true},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q and %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	who := &Identity{name: "a", roles: everyRole}
	who.limit(2, 3)
	for i := range 4 {
		err := who.Enter(now)
		switch {
		case i < 2 && err != nil, i >= 2 && !errors.Is(err, ErrRate):
			t.Errorf("request %d: %v", i+1, err)
		}
	}
	now = now.Add(time.Second) // two more of the rate, one more place
	if err := who.Enter(now); err != nil {
		t.Error(err)
	}
	if err := who.Enter(now); !errors.Is(err, ErrConcurrent) {
		t.Error(err)
	}
	who.Leave()
	if err := who.Enter(now); err != nil {
		t.Error(err)
	}
	for range 1000 {
		if err := Anonymous.Enter(now); err != nil {
			t.Fatal(err)
		}
	}
}

// Reading the file again lets nobody begin anew, and new limits hold at once.
func TestCarryOver(t *testing.T) {
	t.Parallel()
	key := NewKey()
	file := func(rest string) *Set {
		return mustParse(t, "version: 1\nidentities:\n  a: {keys: [\""+Digest(key)+"\"], roles: [read], "+rest+"}\n")
	}
	before, now := file("requests_per_second: 1"), time.Unix(1_700_000_000, 0)
	who, _ := before.ByKey(key)
	if err := who.Enter(now); err != nil {
		t.Fatal(err)
	}
	same, other := file("requests_per_second: 1, dependencies: [x]"), file("requests_per_second: 2")
	same.carryOver(before)
	other.carryOver(before)
	if who, _ = same.ByKey(key); !errors.Is(who.Enter(now), ErrRate) {
		t.Error("a reload gave the rate anew")
	}
	if who, _ = other.ByKey(key); who.Enter(now) != nil {
		t.Error("the new limit does not hold")
	}
}

// Requests that are under way while the file is read again are still counted, also
// under another limit, and leave no place taken.
func TestCarryOverOfRequestsUnderWay(t *testing.T) {
	t.Parallel()
	key, now := NewKey(), time.Unix(1_700_000_000, 0)
	file := func(rest string) *Identity {
		set := mustParse(t, "version: 1\nidentities:\n  a: {keys: [\""+Digest(key)+"\"], roles: [read]"+rest+"}\n")
		return set.byName["a"]
	}
	follow := func(before *Identity, rest string) *Identity {
		next := file(rest)
		(&Set{byName: map[string]*Identity{"a": next}}).carryOver(&Set{byName: map[string]*Identity{"a": before}})
		return next
	}
	enter := func(what string, who *Identity, want error) {
		t.Helper()
		if err := who.Enter(now); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	first := file(", concurrent: 2")
	enter("the first", first, nil)
	enter("the second", first, nil)
	same := follow(first, ", concurrent: 2 # a comment\n")
	enter("the third, after the reload", same, ErrConcurrent)
	more := follow(same, ", concurrent: 3")
	enter("the third, under a limit of 3", more, nil)
	first.Leave()
	first.Leave()
	more.Leave()
	for range 3 {
		enter("when all have left", more, nil)
	}
	enter("the fourth", more, ErrConcurrent)
	none := follow(more, "")
	enter("without a limit", none, nil)
	again := follow(none, ", concurrent: 1")
	none.Leave()
	enter("a limit again", again, nil)
	enter("its second", again, ErrConcurrent)
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	key := NewKey()
	path := filepath.Join(t.TempDir(), "auth.yaml")
	text := "version: 1\nidentities:\n  ops: {keys: [\"" + Digest(key) + "\"], certificates: [ops.internal], roles: [read]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	live, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	chain := func(names ...string) *tls.ConnectionState {
		return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{DNSNames: names}}}}
	}
	basic := func(name, key string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+key))
	}
	withFile, without := &Door{Keys: live}, &Door{}
	for _, c := range []struct {
		name   string
		door   *Door
		header []string
		tls    *tls.ConnectionState
		want   error
		who    string
	}{
		{"nothing", withFile, nil, nil, ErrNobody, ""},
		{"bearer", withFile, []string{"Bearer " + key}, nil, nil, "ops"},
		{"bearer in another case", withFile, []string{"bearer  " + key}, nil, nil, "ops"},
		{"basic", withFile, []string{basic("ops", key)}, nil, nil, "ops"},
		{"basic of another name", withFile, []string{basic("root", key)}, nil, ErrKey, ""},
		{"another key", withFile, []string{"Bearer " + NewKey()}, nil, ErrKey, ""},
		{"no key", withFile, []string{"Bearer"}, nil, ErrKey, ""},
		{"another scheme", withFile, []string{"Digest " + key}, nil, ErrScheme, ""},
		{"two headers", withFile, []string{"Bearer " + key, "Bearer " + key}, nil, ErrScheme, ""},
		{"certificate", withFile, nil, chain("ops.internal"), nil, "ops"},
		{"another certificate", withFile, nil, chain("dev.internal"), ErrCertificate, ""},
		{"one that was not verified", withFile, nil, &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{DNSNames: []string{"ops.internal"}}}}, ErrNobody, ""},
		{"a bad key and a good certificate", withFile, []string{"Bearer x"}, chain("ops.internal"), ErrKey, ""},
		{"any certificate", without, nil, chain("dev.internal"), nil, "dev.internal"},
		{"a certificate without names", without, nil, chain(), nil, "unnamed certificate"},
		{"a key where none is known", without, []string{"Bearer " + key}, chain("dev.internal"), ErrKey, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.TLS = c.tls
			if c.header != nil {
				r.Header["Authorization"] = c.header
			}
			who, err := c.door.Identify(r)
			if !errors.Is(err, c.want) || c.want == nil && who.Name() != c.who {
				t.Errorf("%v, %v", who, err)
			}
		})
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	old, next := NewKey(), NewKey()
	path := filepath.Join(t.TempDir(), "auth.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(keys ...string) string {
		for i := range keys {
			keys[i] = `"` + Digest(keys[i]) + `"`
		}
		return "version: 1\nidentities:\n  a: {keys: [" + strings.Join(keys, ", ") + "], roles: [read]}\n"
	}
	write(file(old))
	live, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for _, step := range []struct {
		text      string
		old, next bool
		refused   bool
	}{
		{file(old, next), true, true, false},
		{"nonsense " + next, true, true, true},
		{file(next), false, true, false},
	} {
		write(step.text)
		live.Reload(slog.New(slog.NewTextHandler(&log, nil)), false)
		_, hasOld := live.Set().ByKey(old)
		_, hasNext := live.Set().ByKey(next)
		if hasOld != step.old || hasNext != step.next || live.Refused() != step.refused {
			t.Errorf("%q: old %v, next %v, refused %v", step.text, hasOld, hasNext, live.Refused())
		}
	}
	if strings.Contains(log.String(), next) || !strings.Contains(log.String(), "auth file refused") {
		t.Errorf("the log: %s", log.String())
	}
}

// What is refused is told once, and again to who asks: the log may stand in the
// folder that is watched. Only the same text as before is told of no more.
func TestReloadIsToldOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "auth.yaml")
	good := "version: 1\nidentities:\n  a: {keys: [\"" + Digest(NewKey()) + "\"], roles: [read]}\n"
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	live, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text  string
		asked bool
		want  string // in the one line that is logged; "": none is
	}{
		{good, false, ""},
		{good, true, "auth file is the one in force"},
		{"nonsense", false, "auth file refused"},
		{"nonsense", false, ""},
		{"nonsense", true, "auth file refused"},
		{"nonsense", false, ""},
		{"version: 2\n", false, "version must be 1"},
		{"version: 2\n", false, ""},
		{good, false, "auth file is the one in force"},
		{good, false, ""},
		{"nonsense", false, "auth file refused"},
		{good + "# other\n", false, "auth file applied"},
	} {
		write(step.text)
		var log bytes.Buffer
		live.Reload(slog.New(slog.NewTextHandler(&log, nil)), step.asked)
		lines := strings.Count(log.String(), "\n")
		if step.want == "" && lines != 0 || step.want != "" && (lines != 1 || !strings.Contains(log.String(), step.want)) {
			t.Errorf("%+v: %s", step, log.String())
		}
		if refused := !strings.HasPrefix(step.text, good); live.Refused() != refused {
			t.Errorf("%+v: refused %v", step, live.Refused())
		}
	}
}

// FuzzParse: no text breaks the reader or gets an identity without a role.
func FuzzParse(f *testing.F) {
	f.Add("version: 1\nidentities:\n  a: {keys: [\"" + Digest(NewKey()) + "\"], roles: [read]}\n")
	f.Add("version: 1\n---\n- {a: [b, *c]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse("auth.yaml", []byte(text))
		if (set == nil) == (err == nil) {
			t.Fatalf("%v, %v", set, err)
		}
		if set == nil {
			return
		}
		for name, who := range set.byName {
			if who.roles == 0 || who.name != name {
				t.Errorf("%q: %+v", name, who)
			}
		}
	})
}
