package identity

import (
	"log/slog"
	"sync/atomic"
)

// refusal is why files were refused when they were read last.
type refusal struct{ why atomic.Pointer[string] } // nil: they were not

// set keeps how a reading went, and says whether the one before it went otherwise.
func (r *refusal) set(err error) (other bool) {
	if err == nil {
		return r.why.Swap(nil) != nil
	}
	now := err.Error()
	before := r.why.Swap(&now)
	return before == nil || *before != now
}

// is says whether the files as they are now were refused.
func (r *refusal) is() bool { return r.why.Load() != nil }

// Live is the auth file in force. A bad file changes nothing.
type Live struct {
	file    string
	current atomic.Pointer[Set]
	refusal refusal
}

// Open reads an auth file to be kept live.
func Open(file string) (*Live, error) {
	set, err := Load(file)
	if err != nil {
		return nil, err
	}
	l := &Live{file: file}
	l.current.Store(set)
	return l, nil
}

// Set is the file in force.
func (l *Live) Set() *Set { return l.current.Load() }

// Refused says whether the file as it is now was refused, and an earlier one is
// in force.
func (l *Live) Refused() bool { return l.refusal.is() }

// Reload reads the file again and puts it in force where it is good. What it logs
// it logs once, and again to who asked for it: a line may be an event of the
// folder, upon which the file is read again.
func (l *Live) Reload(log *slog.Logger, asked bool) {
	set, err := Load(l.file)
	tell := l.refusal.set(err) || asked
	if err != nil {
		if tell {
			log.Error("auth file refused, the one in force stays", "file", l.file, "error", err.Error())
		}
		return
	}
	before := l.Set()
	if set.hash == before.hash {
		if tell {
			log.Info("auth file is the one in force", "file", l.file, "identities", set.Size())
		}
		return
	}
	set.carryOver(before)
	l.current.Store(set)
	log.Info("auth file applied", "file", l.file, "identities", set.Size())
}
