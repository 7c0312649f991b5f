package identity

import (
	"errors"
	"net/http"
	"strings"
)

// Door finds out who sends a request.
type Door struct {
	// Keys is the auth file; nil: there is none, and whoever has a certificate
	// that TLS has verified may do everything.
	Keys *Live
}

// Why a request is nobody's.
var (
	ErrNobody      = errors.New("the request has neither a key nor a client certificate")
	ErrKey         = errors.New("the key is not known")
	ErrCertificate = errors.New("the client certificate is not in the auth file")
	ErrScheme      = errors.New("the header Authorization has neither a Bearer nor a Basic key")
)

// Identify finds who sends a request: by the key in Authorization, as a Bearer
// token or as the password of Basic, which browsers ask for by themselves; without
// one by the client certificate. A wrong key is not mended by a good certificate.
func (d *Door) Identify(r *http.Request) (*Identity, error) {
	if header := r.Header["Authorization"]; len(header) > 0 {
		return d.byKey(r, header)
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, ErrNobody
	}
	leaf := r.TLS.VerifiedChains[0][0]
	if d.Keys == nil {
		return &Identity{name: nameOf(sansOf(leaf), leaf.Subject.CommonName), roles: everyRole}, nil
	}
	if who, ok := d.Keys.Set().ByCertificate(leaf); ok {
		return who, nil
	}
	return nil, ErrCertificate
}

func (d *Door) byKey(r *http.Request, header []string) (*Identity, error) {
	name, key, basic := r.BasicAuth()
	if !basic {
		scheme, token, _ := strings.Cut(header[0], " ")
		if !strings.EqualFold(scheme, "Bearer") || len(header) > 1 {
			return nil, ErrScheme
		}
		key = strings.TrimSpace(token)
	}
	if d.Keys == nil {
		return nil, ErrKey
	}
	who, ok := d.Keys.Set().ByKey(key)
	if !ok || basic && name != who.name {
		return nil, ErrKey
	}
	return who, nil
}

// nameOf is what a certificate's holder is called.
func nameOf(sans []string, commonName string) string {
	for _, name := range append(sans, commonName) {
		if name != "" {
			return name
		}
	}
	return "unnamed certificate"
}
