package policy

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrydecider/decider/internal/decide"
)

// Live is the policy file in force. It changes between two decisions, never
// within one: whoever asks gets a rule of one file. A bad file changes nothing.
type Live struct {
	file string
	now  func() time.Time

	current atomic.Pointer[inForce]
	mu      sync.Mutex // one reload at a time
	last    Reload
}

type inForce struct {
	set *Set
	at  time.Time
}

// Reload is how reading the file again went.
type Reload struct {
	// At is when; zero where it never was.
	At time.Time
	// Err is why the file was refused; nil where it was taken.
	Err error
	// RefusedAt is since when it is refused for that.
	RefusedAt time.Time
	// Good and Bad count how often what was read was another than before, and was
	// taken or refused.
	Good, Bad int64
}

// Open reads a policy file to be kept live; "" is the built-in policy, which
// never changes.
func Open(file string, now func() time.Time) (*Live, error) {
	l := &Live{file: file, now: now}
	set := Standard()
	if file != "" {
		var err error
		if set, err = Load(file); err != nil {
			return nil, err
		}
	}
	l.current.Store(&inForce{set, now()})
	return l, nil
}

// Find returns the rule of a dependency under the file in force.
func (l *Live) Find(dependency string) (p *decide.Policy, bucket string, err error) {
	return l.Set().Find(dependency)
}

// Peek is Find for whoever only looks.
func (l *Live) Peek(dependency string) (p *decide.Policy, bucket string, err error) {
	return l.Set().Peek(dependency)
}

// Rules are those of the file in force.
func (l *Live) Rules() []*decide.Policy { return l.Set().Rules() }

// Set is the file in force.
func (l *Live) Set() *Set { return l.current.Load().set }

// AppliedAt is since when it is in force.
func (l *Live) AppliedAt() time.Time { return l.current.Load().at }

// LastReload is how reading the file again went last.
func (l *Live) LastReload() Reload {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Reload reads the file again and puts it in force where it is good and says
// something else. What it returns is how the two differ.
func (l *Live) Reload() ([]Difference, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == "" {
		return nil, nil
	}
	set, err := Load(l.file)
	other := otherwise(err, l.last.Err)
	l.last.At, l.last.Err = l.now(), err
	if err != nil {
		if other {
			l.last.RefusedAt = l.last.At
			l.last.Bad++
		}
		return nil, err
	}
	before := l.Set()
	same := set.Hash() == before.Hash()
	if !same || other {
		l.last.Good++
	}
	if same {
		return nil, nil
	}
	set.CarryOver(before)
	l.current.Store(&inForce{set, l.now()})
	return Compare(before, set), nil
}

// otherwise says whether a file was refused for other mistakes than before, or
// only one of the two times.
func otherwise(err, before error) bool {
	if err == nil || before == nil {
		return err != before //nolint:errorlint // one of them is nil
	}
	return err.Error() != before.Error()
}

// ReloadAndLog reloads and logs what changed or why nothing did: once, and again
// to who asked for it. A line may be an event of the folder, upon which the file is
// read again.
func (l *Live) ReloadAndLog(log *slog.Logger, asked bool) {
	before := l.LastReload()
	changes, err := l.Reload()
	tell := asked || otherwise(err, before.Err)
	if err != nil {
		if tell {
			log.Error("policy file refused, the one in force stays", "file", l.file, "config", l.Set().Hash(), "error", err.Error())
		}
		return
	}
	if len(changes) == 0 {
		if tell {
			log.Info("policy file is the one in force", "file", l.file, "config", l.Set().Hash())
		}
		return
	}
	log.Info("policy file applied", "file", l.file, "config", l.Set().Hash(), "changes", len(changes))
	for _, c := range changes {
		log.Info("policy changed", "change", c.String())
	}
	l.LogWarnings(log)
}

// LogWarnings logs what the file in force says that is legal and unwise.
func (l *Live) LogWarnings(log *slog.Logger) {
	for _, w := range l.Set().Warnings() {
		log.Warn("policy file is unwise", "at", fmt.Sprintf("%s:%d:%d", w.File, w.Line, w.Column), "kind", w.ID, "warning", w.Message)
	}
}
