package identity

import (
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Role is what one may do.
type Role uint8

// The roles of the contract.
const (
	Report  Role = 1 << iota // ask for decisions and report outcomes
	Read                     // look
	Operate                  // set overrides
)

const everyRole = Report | Read | Operate

var roleNames = [...]struct {
	role Role
	name string
}{{Report, "report"}, {Read, "read"}, {Operate, "operate"}}

// String is the name of one role.
func (r Role) String() string { return strings.Join(r.names(), "+") }

func (r Role) names() []string {
	names := []string{}
	for _, each := range roleNames {
		if r&each.role != 0 {
			names = append(names, each.name)
		}
	}
	return names
}

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, bool) {
	for _, each := range roleNames {
		if each.name == name {
			return each.role, true
		}
	}
	return 0, false
}

// Identity is one who may ask.
type Identity struct {
	name         string
	roles        Role
	dependencies []string // names and patterns; nil: every one

	rate  *rate.Limiter // nil: no limit
	most  int64         // requests at once; 0: no limit
	under *atomic.Int64 // requests under way, where there is a limit
}

// Anonymous is everybody where nobody has to say who they are.
var Anonymous = &Identity{name: "anonymous", roles: everyRole}

// Name is who it is.
func (i *Identity) Name() string { return i.name }

// Roles are the names of what it may do.
func (i *Identity) Roles() []string { return i.roles.names() }

// Has says whether it has a role.
func (i *Identity) Has(r Role) bool { return i.roles&r != 0 }

// MayTouch says whether it may report on a dependency, or override it. Looking is
// not bound to dependencies.
func (i *Identity) MayTouch(dependency string) bool {
	if i.dependencies == nil {
		return true
	}
	for _, pattern := range i.dependencies {
		if matches(pattern, dependency) {
			return true
		}
	}
	return false
}

// matches says whether a name is what a pattern stands for: * is any text.
func matches(pattern, name string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	if !more {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	for ok && more {
		if first, rest, more = strings.Cut(rest, "*"); !more {
			return strings.HasSuffix(name, first)
		}
		_, name, ok = strings.Cut(name, first)
	}
	return ok
}

// Limits that a request can be above.
var (
	ErrRate       = errors.New("more requests a second than this identity may send")
	ErrConcurrent = errors.New("more requests at once than this identity may send")
)

// Enter lets a request in, and returns nil, ErrRate or ErrConcurrent. Who was let
// in must Leave.
func (i *Identity) Enter(now time.Time) error {
	if i.most > 0 && i.under.Add(1) > i.most {
		i.under.Add(-1)
		return ErrConcurrent
	}
	if i.rate != nil && !i.rate.AllowN(now, 1) {
		i.Leave()
		return ErrRate
	}
	return nil
}

// Leave ends a request that was let in.
func (i *Identity) Leave() {
	if i.most > 0 {
		i.under.Add(-1)
	}
}

// limit sets the limits; a bucket of one second's requests lets a burst through.
func (i *Identity) limit(perSecond float64, most int64) {
	if perSecond > 0 {
		i.rate = rate.NewLimiter(rate.Limit(perSecond), int(max(1, math.Ceil(perSecond))))
	}
	i.most, i.under = most, new(atomic.Int64)
}

// goOnFrom takes the counts of who had the name before: those of the rate where it
// is the same, and the requests under way, which leave as who they came.
func (i *Identity) goOnFrom(before *Identity) {
	if i.rate != nil && before.rate != nil && i.rate.Limit() == before.rate.Limit() {
		i.rate = before.rate
	}
	if i.most > 0 && before.most > 0 {
		i.under = before.under
	}
}
