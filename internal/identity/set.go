package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
)

// Set is what an auth file says: everybody who may ask.
type Set struct {
	byKey  map[half]keyed
	byName map[string]*Identity
	// bySAN finds who has a certificate with a subject alternative name.
	bySAN map[string]*Identity
	hash  digest // of the file
}

// keyed is a key's digest and whose it is.
type keyed struct {
	digest digest
	who    *Identity
}

func newSet() *Set {
	return &Set{byKey: map[half]keyed{}, byName: map[string]*Identity{}, bySAN: map[string]*Identity{}}
}

// Size is how many identities there are.
func (s *Set) Size() int { return len(s.byName) }

// ByKey finds whose key it is. It is looked up by the first half of its digest,
// of which nobody can choose a bit, so the time that takes tells nothing of a
// key; the other half is compared in a time that does not depend on it.
func (s *Set) ByKey(key string) (*Identity, bool) {
	if !looksLikeKey(key) {
		return nil, false
	}
	sum := digest(sha256.Sum256([]byte(key)))
	found, ok := s.byKey[sum.half()]
	if !ok || subtle.ConstantTimeCompare(found.digest[:], sum[:]) != 1 {
		return nil, false
	}
	return found.who, true
}

// ByCertificate finds whose certificate it is, by its subject alternative names.
func (s *Set) ByCertificate(c *x509.Certificate) (*Identity, bool) {
	for _, san := range sansOf(c) {
		if who, ok := s.bySAN[san]; ok {
			return who, true
		}
	}
	return nil, false
}

// sansOf are the subject alternative names of a certificate: URIs (as SPIFFE has
// them) first, then DNS names, addresses of mail and of hosts.
func sansOf(c *x509.Certificate) []string {
	var names []string
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	names = append(append(names, c.DNSNames...), c.EmailAddresses...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// carryOver keeps the counts of those who have a name still: reading the file
// again lets nobody begin anew.
func (s *Set) carryOver(before *Set) {
	for name, who := range s.byName {
		if old, ok := before.byName[name]; ok {
			who.goOnFrom(old)
		}
	}
}
