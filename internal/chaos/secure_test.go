//go:build linux

package chaos

import (
	"strings"
	"testing"

	"github.com/retrydecider/decider/internal/budget/redistest"
	"github.com/retrydecider/decider/internal/programtest"
)

// A Redis with TLS, a user and a password is used by those who trust its
// certificate; the others say why they do not use it, and not by what password.
func TestTLSAndPassword(t *testing.T) {
	t.Parallel()
	server, certificate := redistest.StartTLS(t)
	policies := "--policies=" + programtest.PolicyFile(t, chaosPolicies)
	trusting := serveWith(t, []string{"SSL_CERT_FILE=" + certificate}, "--redis-url="+server.URL, exactly, policies)
	if answers := askAtOnce(t, trusting.URL, scarce, 50); answers["retry backoff"] != scarceTokens || answers["give_up budget_exhausted"] != 10 {
		t.Errorf("with the certificate: %v", answers)
	}
	doubting := serve(t, "--redis-url="+server.URL, "--store-timeout="+storeTimeout.String(), policies)
	for range 10 {
		askAtOnce(t, doubting.URL, scarce, 1)
	}
	eventually(t, "its status", patience, func() error { return storeIs(doubting.status(t), "certificate") })
	impostor := serveWith(t, []string{"SSL_CERT_FILE=" + certificate}, "--redis-url="+strings.Replace(server.URL, "open%20sesame", "guess", 1), "--store-timeout="+storeTimeout.String(), policies)
	for range 10 {
		askAtOnce(t, impostor.URL, scarce, 1)
	}
	eventually(t, "its status", patience, func() error { return storeIs(impostor.status(t), "WRONGPASS") })
	for _, p := range []*process{trusting, doubting, impostor} {
		if text := p.Log.String() + p.status(t).Store.Means; strings.Contains(text, "sesame") || strings.Contains(text, "guess") {
			t.Errorf("it tells the password:\n%s", text)
		}
	}
}
