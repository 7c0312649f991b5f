package budget

import (
	"context"
	"sync"

	"github.com/retrydecider/decider/internal/decide"
)

// pauses are an operator's pauses as the shared state was last seen to have
// them, by bucket. They are kept in the local store too, so that one holds to
// its end while the shared state is out of reach. What was allowed is not kept:
// alone, a replica grants no more than its share.
type pauses struct{ seen sync.Map }

// sameEnd is how far apart in ms the ends of one pause may look: each answer
// tells what is left of it, and answers take time.
const sameEnd = 100

// remember takes from answers of the shared state what pauses there are.
func (f *fallback) remember(ctx context.Context, bucket string, p *decide.Policy, ops []op) {
	for i := range ops {
		if o, known := ops[i].pause(f.local.now().UnixMilli()); known {
			f.keepPause(ctx, bucket, p, o)
		}
	}
}

// pause is what the answer to an operation says of pauses, its end as an
// instant in ms; known is false where it says nothing.
func (o *op) pause(now int64) (pause override, known bool) {
	switch {
	case o.ask != nil && o.answer.Replayed: // was granted before anything else was asked
		return override{}, false
	case o.ask != nil:
		if o.answer.Verdict == decide.Paused {
			pause = override{mode: decide.OverridePause, until: now + o.answer.AskAgain.Value}
		}
		return pause, true
	case o.look != nil:
		if s := &o.state.Override; s.Mode == decide.OverridePause {
			pause = override{mode: s.Mode, until: now + s.ExpiresIn, since: s.Since.UnixMilli(), author: s.Author, words: s.Reason}
		}
		return pause, true
	}
	return override{}, false
}

// keepPause sets the local store's pause to what was seen, where it is news.
func (f *fallback) keepPause(ctx context.Context, bucket string, p *decide.Policy, o override) {
	before, had := f.pauses.seen.Load(bucket)
	if o.mode == decide.OverrideNone {
		if had {
			f.pauses.seen.Delete(bucket)
			f.setLocal(ctx, bucket, p, o)
		}
		return
	}
	if had {
		was := before.(override)
		same := o.until-was.until < sameEnd && was.until-o.until < sameEnd
		if same && (o.words == "" || o.words == was.words && o.author == was.author) {
			return
		}
	}
	f.pauses.seen.Store(bucket, o)
	o.until -= f.local.now().UnixMilli()
	f.setLocal(ctx, bucket, p, o)
}

func (f *fallback) setLocal(ctx context.Context, bucket string, p *decide.Policy, o override) {
	_ = f.local.Run(ctx, bucket, share(p, f.replicas()), []op{{override: &o}}) // memory never fails
}
