package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/retrydecider/decider/internal/identity"
	"github.com/retrydecider/decider/internal/watch"
)

// identityFlags say who may ask, and how they are known.
type identityFlags struct {
	AllowAnonymous bool   `help:"Listen on an address that others can reach though nobody has to say who they are."`
	AuthFile       string `type:"path" placeholder:"FILE" help:"Who may ask: names, SHA-256 of keys, roles (see decider key new); read again when it changes. Health, metrics and the contract stay open."`
	TLSCert        string `name:"tls-cert" type:"path" placeholder:"FILE" help:"Certificate (and its chain) in PEM; decider then speaks HTTPS. Read again when it changes."`
	TLSKey         string `name:"tls-key" type:"path" placeholder:"FILE" help:"Key of --tls-cert in PEM."`
	TLSClientCA    string `name:"tls-client-ca" type:"path" placeholder:"FILE" help:"Authorities in PEM whose clients are known by their certificates: those that --auth-file names, or all of them where there is none."`
}

// check refuses flags that contradict each other.
func (f *identityFlags) check() error {
	switch {
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key need each other")
	case f.TLSClientCA != "" && f.TLSCert == "":
		return errors.New("--tls-client-ca needs --tls-cert")
	case f.AllowAnonymous && f.identifies():
		return errors.New("--allow-anonymous contradicts --auth-file and --tls-client-ca")
	}
	return nil
}

// identifies says whether everybody has to say who they are.
func (f *identityFlags) identifies() bool { return f.AuthFile != "" || f.TLSClientCA != "" }

// checkAddress lets only this machine in, unless those who ask say who they are
// or the operator says otherwise: whoever can report can spend every budget.
func (f *identityFlags) checkAddress(flag, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s must be host:port: %w", flag, err)
	}
	if f.AllowAnonymous || f.identifies() || isLoopback(host) {
		return nil
	}
	return fmt.Errorf("refusing to listen on %s: others can reach it and nobody has to say who they are; give --auth-file or --tls-client-ca, or say --allow-anonymous if that is meant", address)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guard is what the flags make: who may ask, and the certificates. Its zero value
// lets everybody in, without TLS.
type guard struct {
	door  *identity.Door
	certs *identity.Certificates
	// loopbackOnly: nobody has to say who they are, and only this machine is let in.
	loopbackOnly bool

	keyFile, certFiles *watch.Watch // begun before the files were read
}

// open reads the files. A refused auth file is printed with every mistake.
func (f *identityFlags) open(w io.Writer) (*guard, error) {
	g := &guard{loopbackOnly: !f.identifies() && !f.AllowAnonymous} // see checkAddress
	if f.identifies() {
		g.door = &identity.Door{}
	}
	if f.AuthFile != "" {
		g.keyFile = watch.Begin(f.AuthFile)
		keys, err := identity.Open(f.AuthFile)
		var wrong *identity.Error
		if errors.As(err, &wrong) {
			fmt.Fprintf(w, "%v\n%s: refused, %s\n", wrong, f.AuthFile, plural(len(wrong.Mistakes), "mistake"))
			return nil, errFailed
		}
		if err != nil {
			return nil, err
		}
		g.door.Keys = keys
	}
	if f.TLSCert == "" {
		return g, nil
	}
	g.certFiles = watch.Begin(f.TLSCert, f.TLSKey, f.TLSClientCA)
	var err error
	g.certs, err = identity.OpenCertificates(f.TLSCert, f.TLSKey, f.TLSClientCA)
	return g, err
}

// listen speaks TLS on a listener, where there is a certificate.
func (g *guard) listen(l net.Listener) net.Listener {
	if g.certs == nil {
		return l
	}
	return tls.NewListener(l, g.certs.Config())
}

func (g *guard) scheme() string {
	if g.certs == nil {
		return "http"
	}
	return "https"
}

// watch reads the files again when they change, or at a SIGHUP, until the context ends.
func (g *guard) watch(ctx context.Context, log *slog.Logger) {
	if g.keyFile != nil {
		go g.keyFile.Run(ctx, hangups(ctx), log, func(asked bool) { g.door.Keys.Reload(log, asked) })
	}
	if g.certFiles != nil {
		go g.certFiles.Run(ctx, hangups(ctx), log, func(asked bool) { g.certs.Reload(log, asked) })
	}
}

// warn tells of keys that travel in the clear to a place that others can reach.
func (g *guard) warn(address net.Addr, log *slog.Logger) {
	host, _, err := net.SplitHostPort(address.String())
	if err == nil && g.certs == nil && g.door != nil && !isLoopback(host) {
		log.Warn("keys are sent in the clear unless a proxy before this decider speaks TLS: give --tls-cert", "address", address.String())
	}
}

// refused is how many of its files are not in force as they are now.
func (g *guard) refused() (n float64) {
	if g.door != nil && g.door.Keys != nil && g.door.Keys.Refused() {
		n++
	}
	if g.certs != nil && g.certs.Refused() {
		n++
	}
	return n
}

// keyCommand makes keys.
type keyCommand struct {
	New keyNewCommand `cmd:"" help:"Make a key, print it once, and print what the auth file has to say of it."`
}

type keyNewCommand struct {
	Name         string          `arg:"" help:"Who the key is for."`
	Roles        []string        `default:"report" help:"What the key may do: report, read, operate."`
	Dependencies dependencyNames `placeholder:"NAME" help:"Names and patterns that the key may report on and override; without any: every one."`
	Output       string          `enum:"text,json" default:"text" help:"text or json."`
}

// dependencyNames are a flag's texts, of which none is empty: an empty one is a
// variable of a shell that was not set, and would bind the key to nothing.
type dependencyNames []string

// Decode is for [kong.MapperValue].
func (d *dependencyNames) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("name", &text); err != nil {
		return err
	}
	for _, name := range strings.Split(text, ",") {
		if name == "" {
			return errors.New("a name is empty; leave the flag out for a key for every dependency")
		}
		*d = append(*d, name)
	}
	return nil
}

// Run makes a key. It is kept nowhere: what is printed is all there is of it.
func (c *keyNewCommand) Run(io streams) error {
	key := identity.NewKey()
	line := c.line(identity.Digest(key))
	if _, err := identity.Parse("the arguments", []byte("version: 1\nidentities:\n"+line)); err != nil {
		var wrong *identity.Error
		if errors.As(err, &wrong) {
			return misuse{errors.New(wrong.Mistakes[0].Message)}
		}
		return err
	}
	if c.Output == "json" {
		return writeJSON(io.out, map[string]any{"name": c.Name, "key": key, "sha256": identity.Digest(key), "line": strings.TrimSuffix(line, "\n")})
	}
	fmt.Fprintf(io.out, "# The key, which is shown this once:\n%s\n\n# Under identities: in the auth file; a second key of one name goes into its list.\n%s", key, line)
	return nil
}

// line is the identity as a line of YAML.
func (c *keyNewCommand) line(digest string) string {
	dependencies := ""
	if len(c.Dependencies) > 0 {
		dependencies = fmt.Sprintf(", dependencies: [%s]", quotedList(c.Dependencies))
	}
	return fmt.Sprintf("  %s: {keys: [%q], roles: [%s]%s}\n", quotedList([]string{c.Name}), digest, strings.Join(c.Roles, ", "), dependencies)
}

// quotedList writes texts in YAML's double quotes, which are JSON's here.
func quotedList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(quoted, ", ")
}
