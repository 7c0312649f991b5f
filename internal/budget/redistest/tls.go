package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// StartTLS starts a server that speaks TLS alone and wants a user and password,
// which are in its URL. The file holds the certificate that a client must trust.
func StartTLS(t testing.TB) (s *Server, certificate string) {
	t.Helper()
	certificate, key := newCertificate(t)
	port := FreePort(t)
	s = newServer(t, port, t.TempDir(), "--port", "0", "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "no",
		"--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate,
		"--user", "decider", "on", ">open sesame", "~decider:*", "+@all", "--user", "default", "off")
	s.URL = "rediss://decider:open%20sesame@" + s.Addr + "/0"
	s.Restart(t)
	return s, certificate
}

// newCertificate makes a certificate of this machine's loopback address that
// signs itself.
func newCertificate(t testing.TB) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	bits, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return writePEM(t, filepath.Join(dir, "certificate.pem"), "CERTIFICATE", signed), writePEM(t, filepath.Join(dir, "key.pem"), "EC PRIVATE KEY", bits)
}

func writePEM(t testing.TB, path, kind string, bits []byte) string {
	t.Helper()
	var text strings.Builder
	if err := pem.Encode(&text, &pem.Block{Type: kind, Bytes: bits}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
