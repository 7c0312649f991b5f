package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

// Certificates are the files of TLS in force: the server's certificate, and those
// of the authorities whose clients are believed. A bad file changes nothing.
type Certificates struct {
	cert, key, clientCA string
	current             atomic.Pointer[tls.Config]
	refusal             refusal
}

// OpenCertificates reads the files; clientCA is "" where clients need no
// certificate.
func OpenCertificates(cert, key, clientCA string) (*Certificates, error) {
	c := &Certificates{cert: cert, key: key, clientCA: clientCA}
	config, err := c.load()
	if err != nil {
		return nil, err
	}
	c.current.Store(config)
	return c, nil
}

// load makes the configuration of a connection. A client's certificate is asked
// for and never demanded: health and metrics are open, and whoever needs an
// identity and has none is told so in HTTP.
func (c *Certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of TLS: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.clientCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(c.clientCA)
	if err != nil {
		return nil, fmt.Errorf("client CA of TLS: %w", err)
	}
	config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client CA of TLS: %s holds no certificate in PEM", c.clientCA)
	}
	return config, nil
}

// Config is for a listener; each connection takes the files as they are then.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// Refused says whether the files as they are now were refused.
func (c *Certificates) Refused() bool { return c.refusal.is() }

// Reload reads the files again and puts them in force where they are good. What it
// logs it logs once, and again to who asked for it.
func (c *Certificates) Reload(log *slog.Logger, asked bool) {
	config, err := c.load()
	tell := c.refusal.set(err) || asked
	if err != nil {
		if tell {
			log.Error("certificates refused, those in force stay", "error", err.Error())
		}
		return
	}
	before := c.current.Swap(config)
	if tell || !bytes.Equal(before.Certificates[0].Certificate[0], config.Certificates[0].Certificate[0]) {
		log.Info("certificates applied", "file", c.cert, "expires", config.Certificates[0].Leaf.NotAfter)
	}
	if c.clientCA != "" && (tell || !before.ClientCAs.Equal(config.ClientCAs)) {
		log.Info("client authorities applied", "file", c.clientCA)
	}
}
