package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// keyPrefix begins every key, so that one that has leaked is recognized.
const keyPrefix = "dcd_"

const (
	keyBytes   = 32
	keyLength  = len(keyPrefix) + (keyBytes*8+5)/6
	digestMark = "sha256:"
)

// digest is the SHA-256 of a key's text: of 256 random bits, which nobody can
// guess, so nothing slower is needed.
type digest [sha256.Size]byte

// half is the first half of a digest.
type half [sha256.Size / 2]byte

func (d digest) half() half { return half(d[:sha256.Size/2]) }

// NewKey draws a key of 256 random bits.
func NewKey() string {
	bits := make([]byte, keyBytes)
	_, _ = rand.Read(bits) // it never fails: a process without randomness is ended
	return keyPrefix + base64.RawURLEncoding.EncodeToString(bits)
}

// Digest is what the auth file holds of a key.
func Digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return digestMark + hex.EncodeToString(sum[:])
}

// looksLikeKey says whether a text can be a key; one that cannot is not hashed.
func looksLikeKey(text string) bool {
	return len(text) == keyLength && strings.HasPrefix(text, keyPrefix)
}

// parseDigest reads what [Digest] wrote.
func parseDigest(text string) (d digest, ok bool) {
	digits, ok := strings.CutPrefix(text, digestMark)
	if !ok || len(digits) != hex.EncodedLen(len(d)) {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(digits))
	return d, err == nil
}
