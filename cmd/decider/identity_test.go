//go:build linux

package main_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// newKey makes a key by the command that operators use.
func newKey(t testing.TB, name string, flags ...string) (key, digest, line string) {
	t.Helper()
	r := decides(t, append([]string{"key", "new", name, "--output=json"}, flags...)...)
	var made struct{ Key, SHA256, Line string }
	if err := json.Unmarshal([]byte(r.out), &made); r.code != 0 || err != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	return made.Key, made.SHA256, made.Line
}

func mountFile(t testing.TB, path, text string) {
	t.Helper()
	// As a secret is mounted: whole or not at all.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func authFile(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "auth.yaml")
	mountFile(t, path, "version: 1\nidentities:\n"+strings.Join(lines, "\n")+"\n")
	return path
}

// send makes a request with a key, "" for none, and returns the status.
func send(ctx context.Context, client *http.Client, method, url, key, body string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

const failed503 = `{"dependency":"payments","method":"GET","status":503}`

func mustSend(t testing.TB, client *http.Client, method, url, key, body string, want int) string {
	t.Helper()
	status, answer, err := send(t.Context(), client, method, url, key, body)
	if err != nil || status != want {
		t.Errorf("%s %s: %d, want %d, %v: %s", method, url, status, want, err, answer)
	}
	return answer
}

// An address that others can reach needs to know who asks, or the operator's word.
func TestPublicAddressNeedsIdentity(t *testing.T) {
	t.Parallel()
	_, _, line := newKey(t, "checkout")
	file := authFile(t, line)
	for _, args := range [][]string{{"--listen=0.0.0.0:0"}, {"--listen=:0"}, {"--admin-listen=0.0.0.0:0"},
		{"--allow-anonymous", "--auth-file=" + file}, {"--tls-cert=x"}, {"--tls-client-ca=x"}, {"--metrics=admin"}, {"--max-concurrent=0"}, {"--access-log=-1"}} {
		if r := decides(t, append([]string{"serve"}, args...)...); r.code != 2 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	p := serve(t, "--listen=0.0.0.0:0", "--auth-file="+file)
	_, port, err := net.SplitHostPort(p.Listen)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + port
	mustSend(t, web, http.MethodPost, base+"/v1/decide", "", failed503, 401)
	mustSend(t, web, http.MethodGet, base+"/readyz", "", "", 200)
	eventually(t, "the log warns of keys in the clear", func() bool { return strings.Contains(p.Log.String(), "keys are sent in the clear") })
	bad := authFile(t, "  a: {keys: [x], roles: [read]}")
	if r := decides(t, "serve", "--auth-file="+bad); r.code != 1 || !strings.Contains(r.err, bad+":3:14: a key is written sha256:") {
		t.Errorf("a bad file: %+v", r)
	}
}

// Keys take each other's place without one request that fails: both are in the
// file for a while. What was taken out is refused within a second or two.
func TestRotation(t *testing.T) {
	t.Parallel()
	old, oldDigest, _ := newKey(t, "checkout")
	next, nextDigest, _ := newKey(t, "checkout")
	entry := func(digests ...string) string {
		return "version: 1\nidentities:\n  checkout: {keys: [\"" + strings.Join(digests, `", "`) + "\"], roles: [report, read]}\n"
	}
	file := authFile(t)
	mountFile(t, file, entry(oldDigest))
	p := serve(t, "--auth-file="+file)

	var inUse atomic.Pointer[string]
	inUse.Store(&old)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var good, bad atomic.Int64
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				status, answer, err := send(t.Context(), web, http.MethodPost, p.URL+"/v1/decide", *inUse.Load(), failed503)
				if err != nil || status != 200 {
					bad.Add(1)
					t.Errorf("%d, %v: %s", status, err, answer)
					return
				}
				good.Add(1)
			}
		})
	}
	mountFile(t, file, entry(oldDigest, nextDigest))
	eventually(t, "the next key is known", func() bool {
		status, _, err := send(t.Context(), web, http.MethodGet, p.URL+"/v1/status", next, "")
		return err == nil && status == 200
	})
	inUse.Store(&next)
	time.Sleep(100 * time.Millisecond) // whoever had read the old key has sent it
	mountFile(t, file, entry(nextDigest))
	eventually(t, "the old key is refused", func() bool {
		status, _, err := send(t.Context(), web, http.MethodGet, p.URL+"/v1/status", old, "")
		return err == nil && status == 401
	})
	mountFile(t, file, "nonsense")
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refused file is told", func() bool {
		status, text, err := send(t.Context(), web, http.MethodGet, p.URL+"/metrics", "", "")
		return err == nil && status == 200 && strings.Contains(text, "decider_identity_files_refused 1\n")
	})
	stop()
	group.Wait()
	t.Logf("%d requests while keys were rotated, %d failed", good.Load(), bad.Load())
	if good.Load() == 0 || bad.Load() > 0 {
		t.Errorf("%d good, %d failed", good.Load(), bad.Load())
	}
}

// Whoever tries a thousand keys a second costs the others nothing that they would
// notice. The measure, beside a control without the bad keys, is printed; what is
// held to is that no other request fails and every bad one is refused.
func TestBadKeysAreCheap(t *testing.T) {
	t.Parallel()
	key, _, line := newKey(t, "checkout")
	p := serve(t, "--auth-file="+authFile(t, line))
	const span, perSecond = 3 * time.Second, 1000
	measure := func() (p50, p99 time.Duration) {
		var took []time.Duration
		for until := time.Now().Add(span); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
			begun := time.Now()
			status, answer, err := send(t.Context(), web, http.MethodPost, p.URL+"/v1/decide", key, failed503)
			took = append(took, time.Since(begun))
			if err != nil || status != 200 {
				t.Fatalf("%d, %v: %s", status, err, answer)
			}
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)*99/100]
	}
	control50, control99 := measure()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var refused, other atomic.Int64
	wrong := key[:len(key)-4]
	for worker := range 10 {
		group.Go(func() {
			tick := time.NewTicker(10 * time.Second / perSecond)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; i++ {
				<-tick.C
				status, _, err := send(t.Context(), web, http.MethodPost, p.URL+"/v1/decide", fmt.Sprintf("%s%01d%03d", wrong, worker, i%1000), failed503)
				if err == nil && status == 401 {
					refused.Add(1)
				} else {
					other.Add(1)
				}
			}
		})
	}
	bad50, bad99 := measure()
	stop()
	group.Wait()
	t.Logf("control p50 %s p99 %s; with %d bad keys a second p50 %s p99 %s", control50, control99, refused.Load()*int64(time.Second)/int64(span), bad50, bad99)
	if other.Load() > 0 || refused.Load() < 100 {
		t.Errorf("%d refused, %d otherwise", refused.Load(), other.Load())
	}
	p.Stop(t)
	if n := strings.Count(p.Log.String(), "a request was refused"); n > 10 {
		t.Errorf("%d lines of the log for bad keys", n)
	}
	if strings.Contains(p.Log.String(), wrong) || strings.Contains(p.Log.String(), key) {
		t.Error("a key is in the log")
	}
}

// A variable of a shell that is not set makes no key for everything.
func TestKeyForNothing(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--dependencies", ""}, {"--dependencies="}, {"--dependencies=payments,"}, {"--dependencies=payments", "--dependencies="}, {"--roles="}} {
		if r := decides(t, append([]string{"key", "new", "x"}, flags...)...); r.code != 2 || r.out != "" {
			t.Errorf("%q: %+v", flags, r)
		}
	}
	if _, _, line := newKey(t, "x", "--dependencies=payments,orders", "--dependencies=search-*"); !strings.Contains(line, `dependencies: ["payments", "orders", "search-*"]`) {
		t.Errorf("%s", line)
	}
}

// decider explain says who asks by a key in a file.
func TestExplainWithKey(t *testing.T) {
	t.Parallel()
	key, _, line := newKey(t, "reader", "--roles=read")
	p := serve(t, "--auth-file="+authFile(t, line))
	file := filepath.Join(t.TempDir(), "key")
	mountFile(t, file, key+"\n")
	if r := decides(t, "explain", "--server="+p.URL, "--key-file="+file, failed503); r.code != 0 || !strings.Contains(r.out, "retry") {
		t.Errorf("%+v", r)
	}
	if r := decides(t, "explain", "--server="+p.URL, failed503); r.code != 1 || !strings.Contains(r.err, "neither a key nor a client certificate") {
		t.Errorf("%+v", r)
	}
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes a certificate for a DNS name, which is for this machine too.
func (a *authority) issue(t testing.TB, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if name == "decider.internal" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// client is an HTTP client that trusts an authority, with a certificate of
// another where that is given.
func (a *authority) client(t testing.TB, of *authority, name string, least uint16) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	config := &tls.Config{RootCAs: pool, MaxVersion: least}
	if name != "" {
		pair, err := tls.X509KeyPair(of.issue(t, name))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// Certificates are identities by their names in the auth file; those of another
// authority are refused by TLS itself; what is open stays open; the server's own
// certificate changes without a restart.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca, other, dir := newAuthority(t), newAuthority(t), t.TempDir()
	certFile, keyFile, caFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	renew := func() {
		cert, key := ca.issue(t, "decider.internal")
		mountFile(t, keyFile, string(key))
		mountFile(t, certFile, string(cert))
	}
	renew()
	mountFile(t, caFile, string(ca.pem))
	files := []string{"--tls-cert=" + certFile, "--tls-key=" + keyFile, "--tls-client-ca=" + caFile}
	withFile := serveTLS(t, append(files, "--auth-file="+authFile(t, "  jo: {certificates: [jo.internal], roles: [read]}"))...)
	without := serveTLS(t, files...)

	known, unknown, none := ca.client(t, ca, "jo.internal", 0), ca.client(t, ca, "mallory.internal", 0), ca.client(t, nil, "", 0)
	var status struct{ Roles []string }
	if err := json.Unmarshal([]byte(mustSend(t, known, http.MethodGet, withFile.URL+"/v1/status", "", "", 200)), &status); err != nil || !slices.Equal(status.Roles, []string{"read"}) {
		t.Errorf("%v, %v", status, err)
	}
	mustSend(t, known, http.MethodPost, withFile.URL+"/v1/decide", "", failed503, 403)
	mustSend(t, unknown, http.MethodGet, withFile.URL+"/v1/status", "", "", 401)
	mustSend(t, none, http.MethodGet, withFile.URL+"/v1/status", "", "", 401)
	mustSend(t, none, http.MethodGet, withFile.URL+"/readyz", "", "", 200)
	mustSend(t, unknown, http.MethodPost, without.URL+"/v1/decide", "", failed503, 200)
	mustSend(t, none, http.MethodPost, without.URL+"/v1/decide", "", failed503, 401)
	if answer := mustSend(t, unknown, http.MethodPut, without.URL+"/v1/dependencies/payments/override", "", `{"mode":"pause","expires_in_ms":1000,"reason":"x"}`, 200); !strings.Contains(answer, `"author":"mallory.internal"`) {
		t.Errorf("%s", answer)
	}
	for what, client := range map[string]*http.Client{"a certificate of another authority": ca.client(t, other, "jo.internal", 0), "TLS 1.1": ca.client(t, nil, "", tls.VersionTLS11)} {
		if status, _, err := send(t.Context(), client, http.MethodGet, withFile.URL+"/readyz", "", ""); err == nil {
			t.Errorf("%s: %d", what, status)
		}
	}
	eventually(t, "handshakes that failed are counted and told", func() bool {
		text := mustSend(t, none, http.MethodGet, withFile.URL+"/metrics", "", "", 200)
		return strings.Contains(text, "decider_requests_refused_total{why=\"handshake\"} ") && strings.Contains(withFile.Log.String(), "why=handshake from=127.0.0.1")
	})
	if r := decides(t, "healthcheck", "--listen="+withFile.Listen, "--tls-cert="+certFile); r.code != 0 {
		t.Errorf("healthcheck: %+v", r)
	}

	serial := func() string {
		conn, err := tls.Dial("tcp", withFile.Listen, known.Transport.(*http.Transport).TLSClientConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	renew()
	eventually(t, "the new certificate is served", func() bool { return serial() != before })
	mountFile(t, caFile, string(ca.pem)+string(other.pem))
	eventually(t, "another authority's clients are believed", func() bool {
		status, _, err := send(t.Context(), ca.client(t, other, "jo.internal", 0), http.MethodGet, withFile.URL+"/v1/status", "", "")
		return err == nil && status == 200
	})
	eventually(t, "the log tells of it", func() bool { return strings.Contains(withFile.Log.String(), "client authorities applied") })
	mountFile(t, certFile, "nonsense")
	eventually(t, "refused certificates are told", func() bool {
		_, text, err := send(t.Context(), none, http.MethodGet, withFile.URL+"/metrics", "", "")
		return err == nil && strings.Contains(text, "decider_identity_files_refused 1\n")
	})
	serial() // the one before is still served
}

var operatorsAt = regexp.MustCompile(`admin_address=http://([^" \n]+)`)

// serveTLS is serve for a decider that speaks HTTPS.
func serveTLS(t testing.TB, args ...string) *process {
	t.Helper()
	p := serve(t, args...)
	p.URL = "https://" + p.Listen
	return p
}

// The admin listener is for operators: profiles, the log's level, metrics.
func TestAdminListener(t *testing.T) {
	t.Parallel()
	ops, _, opsLine := newKey(t, "ops", "--roles=operate")
	reader, _, readLine := newKey(t, "reader", "--roles=read")
	p := serve(t, "--auth-file="+authFile(t, opsLine, readLine), "--admin-listen=127.0.0.1:0", "--metrics=admin", "--access-log=1000000000")
	admin := "http://" + p.WaitFor(t, operatorsAt)
	mustSend(t, web, http.MethodGet, p.URL+"/metrics", "", "", 404)
	mustSend(t, web, http.MethodGet, p.URL+"/debug/pprof/", ops, "", 404)
	if text := mustSend(t, web, http.MethodGet, admin+"/metrics", "", "", 200); !strings.Contains(text, "decider_build_info") || !strings.Contains(text, "go_goroutines") {
		t.Errorf("%s", text)
	}
	mustSend(t, web, http.MethodGet, admin+"/livez", "", "", 200)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap", "/log-level"} {
		mustSend(t, web, http.MethodGet, admin+path, "", "", 401)
		mustSend(t, web, http.MethodGet, admin+path, reader, "", 403)
		mustSend(t, web, http.MethodGet, admin+path, ops, "", 200)
	}
	mustSend(t, web, http.MethodGet, admin+"/debug/pprof/cmdline", ops, "", 404)
	if level := mustSend(t, web, http.MethodGet, admin+"/log-level", ops, "", 200); level != "INFO\n" {
		t.Errorf("level %q", level)
	}
	mustSend(t, web, http.MethodPut, admin+"/log-level", reader, "DEBUG", 403)
	mustSend(t, web, http.MethodPut, admin+"/log-level", ops, "LOUD", 422)
	mustSend(t, web, http.MethodPut, admin+"/log-level", ops, "INFO+1", 422)
	mustSend(t, web, http.MethodPut, admin+"/log-level", ops, "ERROR", 200)
	mustSend(t, web, http.MethodPost, p.URL+"/v1/decide", "", failed503, 401)
	mustSend(t, web, http.MethodPut, p.URL+"/v1/dependencies/payments/override", ops, `{"mode":"pause","expires_in_ms":1000,"reason":"x"}`, 200)
	mustSend(t, web, http.MethodPut, admin+"/log-level", ops, "DEBUG\n", 200)
	page, err := http.NewRequestWithContext(t.Context(), http.MethodPut, admin+"/log-level", strings.NewReader("ERROR"))
	if err != nil {
		t.Fatal(err)
	}
	page.Header.Set("Sec-Fetch-Site", "cross-site")
	response, err := web.Do(page)
	if err != nil || response.StatusCode != http.StatusForbidden {
		t.Fatal(response, err)
	}
	response.Body.Close()
	metrics := mustSend(t, web, http.MethodGet, admin+"/metrics", "", "", 200)
	for _, line := range []string{`{why="cross_site"} 1`, `{why="role"} 5`, `{why="unidentified"} 5`} {
		if !strings.Contains(metrics, "decider_requests_refused_total"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	p.Stop(t)
	log := p.Log.String()
	if strings.Contains(log, "a request was answered") {
		t.Errorf("the level did not hold:\n%s", log)
	}
	for _, line := range []string{
		`level=WARN msg="log level changed" before=INFO now=ERROR author=ops from=127.0.0.1`, `msg="log level changed" before=ERROR now=DEBUG author=ops`,
		`msg="an override was set" dependency=payments author=ops`, "why=unidentified from=127.0.0.1 method=GET route=/debug/pprof/ identity=\"\"",
		"why=role from=127.0.0.1 method=GET route=/debug/pprof/ identity=reader", "why=cross_site from=127.0.0.1 method=PUT",
	} {
		if !strings.Contains(log, line) {
			t.Errorf("no %q in:\n%s", line, log)
		}
	}
}

// No secret reaches a log at any level, whatever comes in.
func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	key, digest, line := newKey(t, "checkout", "--roles=report,read,operate")
	p := serve(t, "--auth-file="+authFile(t, line), "--redis-url=redis://user:hunter2@127.0.0.1:1/0", "--log-level=DEBUG", "--access-log=1000")
	bad := strings.Replace(key, "dcd_", "dcd-", 1)
	for _, try := range []struct{ method, path, key, body string }{
		{http.MethodPost, "/v1/decide", key, failed503},
		{http.MethodPost, "/v1/decide?key=" + key, key, failed503},
		{http.MethodPost, "/v1/decide", bad, failed503},
		{http.MethodPost, "/v1/decide/" + key, key, "{}"},
		{http.MethodGet, "/v1/dependencies/" + key, key, ""},
		{http.MethodGet, "/" + key, "", ""},
		{http.MethodPost, "/v1/decide", key, `{"dependency":"payments","method":"GET","status":503,"headers":{"authorization":"` + key + `"}}`},
		{http.MethodPost, "/v1/decide", key, `{"` + key + `":1`},
		{http.MethodPut, "/v1/dependencies/payments/override", key, `{"mode":"pause","expires_in_ms":1000,"reason":"x"}`},
	} {
		if _, _, err := send(t.Context(), web, try.method, p.URL+try.path, try.key, try.body); err != nil {
			t.Error(err)
		}
	}
	p.Stop(t)
	log := p.Log.String()
	for _, secret := range []string{key, key[4:], strings.TrimPrefix(digest, "sha256:"), "hunter2"} {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in the log:\n%s", secret, log)
		}
	}
	if !strings.Contains(log, "a request was answered") || !strings.Contains(log, "the store is out of reach") {
		t.Errorf("the log says too little:\n%s", log)
	}
}

// A decider that starts without its Redis says so before anybody has asked.
func TestHonestWithoutTraffic(t *testing.T) {
	t.Parallel()
	p := serve(t, "--redis-url=redis://127.0.0.1:1/0")
	var ready readiness
	eventually(t, "readyz names the store", func() bool {
		get(t, p.URL+"/readyz", http.StatusOK, &ready)
		return ready.store().State == "degraded"
	})
	told := func() int { return strings.Count(p.Log.String(), "the store is out of reach") }
	eventually(t, "the log tells of it", func() bool { return told() > 0 }) // it is told after the turn, and comes by a pipe
	if n := told(); n != 1 {
		t.Errorf("told %d times:\n%s", n, p.Log)
	}
}
