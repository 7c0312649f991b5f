package identity

import (
	"crypto/sha256"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// maxPerSecond and maxAtOnce bound what a limit may be.
const (
	maxPerSecond = 1e9
	maxAtOnce    = 1e9
)

var (
	namePattern       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$`)
	dependencyPattern = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$`)
)

// Load reads an auth file. Its error is an *[Error] where the file is wrong.
func Load(file string) (*Set, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(file, text)
}

// Parse reads the text of an auth file:
//
//	version: 1
//	identities:
//	  checkout:
//	    keys: ["sha256:…"]              # two while one takes the other's place
//	    certificates: [checkout.internal, "spiffe://prod/checkout"]
//	    roles: [report]
//	    dependencies: [payments, "search-*"]   # absent: every one
//	    requests_per_second: 500               # absent: no limit
//	    concurrent: 64                         # absent: no limit
func Parse(file string, text []byte) (*Set, error) {
	s, set := &source{file: file}, newSet()
	set.hash = sha256.Sum256(text)
	root := s.tree(text)
	if root == nil {
		return nil, s.err()
	}
	hasVersion := false
	s.members(root, func(name string, key, value ast.Node) {
		switch name {
		case "version":
			hasVersion = true
			if value.GetToken().Value != "1" {
				s.wrongAt(value, "version must be 1")
			}
		case "identities":
			s.identities(value, set)
		default:
			s.wrongAt(key, "unknown word %s; known are version, identities", quoted(name))
		}
	})
	if !hasVersion {
		s.wrong(nil, `the file must say "version: 1"`)
	}
	if err := s.err(); err != nil {
		return nil, err
	}
	return set, nil
}

func (s *source) identities(n ast.Node, set *Set) {
	all := asMapping(n)
	if all == nil {
		s.wrongAt(n, "identities must be a mapping of names")
		return
	}
	s.members(all, func(name string, key, value ast.Node) {
		if !namePattern.MatchString(name) {
			s.wrongAt(key, "a name is 1 to 128 of A-Z a-z 0-9 . _ : / @ -, and begins with a letter or digit")
			return
		}
		if body := asMapping(value); body != nil {
			set.byName[name] = s.identity(name, key, body, set)
		} else {
			s.wrongAt(key, "%s must be a mapping of words", quoted(name))
		}
	})
}

// identity reads one identity and makes it known by its keys and certificates.
func (s *source) identity(name string, key ast.Node, n *ast.MappingNode, set *Set) *Identity {
	who := &Identity{name: name}
	var perSecond float64
	var most int64
	known, hasRoles := false, false
	s.members(n, func(word string, at, value ast.Node) {
		switch word {
		case "keys":
			known = true
			s.texts(word, value, func(text string, at ast.Node) { s.key(text, at, who, set) })
		case "certificates":
			known = true
			s.texts(word, value, func(text string, at ast.Node) { s.certificate(text, at, who, set) })
		case "roles":
			hasRoles = true
			s.texts(word, value, func(text string, at ast.Node) { s.role(text, at, who) })
		case "dependencies":
			who.dependencies = []string{}
			s.texts(word, value, func(text string, at ast.Node) { s.dependency(text, at, who) })
		case "requests_per_second":
			perSecond = s.number(word, value, maxPerSecond)
		case "concurrent":
			most = s.whole(word, value)
		default:
			s.wrongAt(at, "unknown word %s; known are keys, certificates, roles, dependencies, requests_per_second, concurrent", quoted(word))
		}
	})
	if !known {
		s.wrongAt(key, "%s has neither keys nor certificates", quoted(name))
	}
	if !hasRoles {
		s.wrongAt(key, "%s has no roles; known are report, read, operate", quoted(name))
	}
	who.limit(perSecond, most)
	return who
}

func (s *source) key(text string, at ast.Node, who *Identity, set *Set) {
	if strings.Contains(text, keyPrefix) {
		s.wrongAt(at, "this is a key itself, which is no secret any more: make another, and write its sha256:… here")
		return
	}
	sum, ok := parseDigest(text)
	if !ok {
		s.wrongAt(at, "a key is written sha256: and 64 hexadecimal digits, as decider key new prints it")
		return
	}
	if other, taken := set.byKey[sum.half()]; taken {
		s.wrongAt(at, "this key is already that of %s", quoted(other.who.name))
		return
	}
	set.byKey[sum.half()] = keyed{sum, who}
}

func (s *source) certificate(san string, at ast.Node, who *Identity, set *Set) {
	other, taken := set.bySAN[san]
	switch {
	case san == "" || strings.ContainsAny(san, "* \t"):
		s.wrongAt(at, "a certificate is named by one of its subject alternative names, whole and without a pattern")
	case taken:
		s.wrongAt(at, "this certificate is already that of %s", quoted(other.name))
	default:
		set.bySAN[san] = who
	}
}

func (s *source) role(text string, at ast.Node, who *Identity) {
	role, ok := ParseRole(text)
	if !ok {
		s.wrongAt(at, "unknown role %s; known are report, read, operate", quoted(text))
	}
	who.roles |= role
}

func (s *source) dependency(text string, at ast.Node, who *Identity) {
	if !dependencyPattern.MatchString(text) {
		s.wrongAt(at, "a dependency is 1 to 128 of A-Z a-z 0-9 . _ : / -, and * for any text")
	}
	who.dependencies = append(who.dependencies, text)
}

// number reads a number above 0.
func (s *source) number(word string, n ast.Node, most float64) float64 {
	x, err := strconv.ParseFloat(n.GetToken().Value, 64)
	if err != nil || !(x > 0) || x > most {
		s.wrongAt(n, "%s must be a number above 0 and at most %.0f", word, most)
		return 0
	}
	return x
}

func (s *source) whole(word string, n ast.Node) int64 {
	x := s.number(word, n, maxAtOnce)
	if x != math.Trunc(x) {
		s.wrongAt(n, "%s must be a whole number", word)
	}
	return int64(x)
}
