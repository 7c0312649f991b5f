package identity

import (
	"log/slog"
	"sync/atomic"
)

// Live is the auth file in force. A bad file changes nothing.
type Live struct {
	file    string
	current atomic.Pointer[Set]
	refused atomic.Bool
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
func (l *Live) Refused() bool { return l.refused.Load() }

// Reload reads the file again and puts it in force where it is good.
func (l *Live) Reload(log *slog.Logger) {
	set, err := Load(l.file)
	l.refused.Store(err != nil)
	if err != nil {
		log.Error("auth file refused, the one in force stays", "file", l.file, "error", err.Error())
		return
	}
	before := l.Set()
	if set.hash == before.hash {
		return
	}
	set.carryOver(before)
	l.current.Store(set)
	log.Info("auth file applied", "file", l.file, "identities", set.Size())
}
