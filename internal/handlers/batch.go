package handlers

import (
	"context"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/identity"
)

const (
	maxBatch = 1000
	// keptItems is how many items of a batch are room that is kept for the next.
	keptItems = 256
)

// batchItem is one attempt of a batch and what came of it.
type batchItem struct {
	attempt  decide.Attempt
	decision decide.Decision
	problem  *problem
}

// DecideBatch answers POST /v1/decide/batch.
func (s *server) DecideBatch(c echo.Context) error {
	x := exchanges.Get().(*exchange)
	defer x.release()
	items, err := x.receiveBatch(c.Request())
	if err != nil {
		return err
	}
	s.decideItems(untilAnswered(c), who(c), items)
	x.out = appendAnswers(x.out[:0], items)
	return write(c, http.StatusOK, jsonType, x.out)
}

func appendAnswers(b []byte, items []batchItem) []byte {
	b = append(b, `{"answers":[`...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		if p := items[i].problem; p != nil {
			b = append(b, p.bytes()...)
		} else {
			b = appendDecision(b, &items[i].decision)
		}
	}
	return append(b, `]}`...)
}

// decideItems decides on those that are right, all at once.
func (s *server) decideItems(ctx context.Context, asks *identity.Identity, items []batchItem) {
	begun := traceBatch(ctx, len(items), s.Now)
	attempts, places := make([]*decide.Attempt, 0, len(items)), make([]int, 0, len(items))
	for i := range items {
		item := &items[i]
		if item.problem != nil {
			continue
		}
		if err := mayTouch(asks, item.attempt.Dependency); err != nil {
			item.problem = problemAt(err, itemPlace("/attempts", i))
			continue
		}
		attempts, places = append(attempts, &item.attempt), append(places, i)
	}
	s.Decider.DecideAll(ctx, attempts, func(n int, d decide.Decision, err error) {
		item := &items[places[n]]
		if err != nil {
			item.problem = problemAt(err, itemPlace("/attempts", places[n]))
			return
		}
		traceItem(ctx, places[n], begun, &d)
		s.count(&item.attempt, &d)
		item.decision = d
	})
}

// receiveBatch reads the frame and each attempt by itself. Its error is about
// the frame; what is wrong with an attempt becomes that attempt's problem.
func (x *exchange) receiveBatch(r *http.Request) ([]batchItem, error) {
	if err := x.receive(r, maxListBody); err != nil {
		return nil, err
	}
	err := x.reader.list("attempts", maxBatch, func() error {
		x.items = append(x.items, batchItem{})
		item := &x.items[len(x.items)-1]
		frame, more := x.reader.wrong, x.reader.more
		x.reader.wrong, x.reader.more = nil, 0
		if err := x.reader.attempt(&x.draft); err != nil {
			return err
		}
		if err := x.reader.verdict(); err != nil {
			item.problem = problemFor(err)
		}
		item.attempt = x.draft.attempt
		x.reader.wrong, x.reader.more = frame, more
		return nil
	})
	return x.items, err
}

// itemPlace is the JSON pointer of a list's item.
func itemPlace(list string, i int) string { return list + "/" + strconv.Itoa(i) }
