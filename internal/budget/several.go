package budget

import (
	"context"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/sidebyside"
)

var _ decide.Several = (*Fleet)(nil)

// sameBucket are questions to one bucket, for one call.
type sameBucket struct {
	questions []question
	places    []int // in the list
}

// AskAll puts many questions. Those of one bucket go to it in one call, in their
// order, however many they are: in several calls the order would be lost, or what
// the store's timeout bounds would be their sum. A thousand take Redis 3 ms.
func (f *Fleet) AskAll(ctx context.Context, list []decide.Question, answers []decide.Answer) {
	ctx, cancel := f.Bounded(ctx)
	defer cancel()
	calls := byBucket(list)
	sidebyside.Do(sidebyside.All, len(calls), func(i int) {
		same := calls[i]
		ops := make([]op, len(same.questions))
		for n := range ops {
			ops[n].ask = &same.questions[n]
		}
		first := &list[same.places[0]]
		f.run(ctx, first.Bucket, first.Policy, ops)
		for n, place := range same.places {
			answers[place] = ops[n].answer
		}
	})
}

// byBucket groups questions by their bucket and rule.
func byBucket(list []decide.Question) (calls []*sameBucket) {
	open := map[target]*sameBucket{}
	for i := range list {
		at := target{list[i].Bucket, list[i].Policy}
		same := open[at]
		if same == nil {
			same = &sameBucket{}
			open[at] = same
			calls = append(calls, same)
		}
		same.questions, same.places = append(same.questions, *newQuestion(&list[i])), append(same.places, i)
	}
	return calls
}
