package decide

import "context"

// Several is what a [Fleet] may know besides: how to be asked much at once. Of
// one that does not, each question is asked by itself.
type Several interface {
	// AskAll puts every question as Ask would, those of one bucket in their order,
	// and fills in the answers, of which there are as many.
	AskAll(ctx context.Context, questions []Question, answers []Answer)
}

// several are planned retries that wait for the fleet's word.
type several struct {
	places    []int // of their attempts
	plans     []Plan
	questions []Question
	trials    []*enforced // nil where the rule has no candidate
}

// DecideAll answers each attempt as Decide would, and asks the fleet's state for
// all of them at once. answered hears of each, in any order; its error is
// [ErrUnknownDependency].
func (d *Decider) DecideAll(ctx context.Context, attempts []*Attempt, answered func(i int, decided Decision, err error)) {
	var open several
	for i, a := range attempts {
		policy, bucket, err := d.Policies.Find(a.Dependency)
		if err != nil {
			answered(i, Decision{}, err)
			continue
		}
		now, random := d.Now(), d.Random
		var tried *enforced
		if d.tries(policy) {
			tried = newEnforced(policy, bucket, a, now, random)
			random = tried.chance.draw
		}
		plan := d.plan(policy, a, now, random, nil)
		if plan.Asks {
			open.add(i, &plan, plan.question(policy, bucket, a), tried)
			continue
		}
		d.tell(&plan, policy, bucket, a)
		if tried != nil {
			tried.decision = plan.Decision
			d.try(ctx, tried, nil, false)
		}
		answered(i, plan.Decision, nil)
	}
	answers := d.askAll(ctx, open.questions)
	for n, i := range open.places {
		plan, tried, random := &open.plans[n], open.trials[n], d.Random
		if tried != nil {
			random = tried.chance.draw
		}
		plan.settle(answers[n], &open.questions[n], random, nil)
		if tried != nil {
			tried.decision, tried.answer, tried.asked = plan.Decision, answers[n], true
			d.try(ctx, tried, nil, false)
		}
		answered(i, plan.Decision, nil)
	}
}

func (s *several) add(i int, plan *Plan, q Question, tried *enforced) {
	s.places, s.plans, s.questions, s.trials = append(s.places, i), append(s.plans, *plan), append(s.questions, q), append(s.trials, tried)
}

func (d *Decider) askAll(ctx context.Context, questions []Question) []Answer {
	answers := make([]Answer, len(questions))
	if fleet, ok := d.Fleet.(Several); ok {
		fleet.AskAll(ctx, questions, answers)
		return answers
	}
	for i := range questions {
		answers[i] = d.Fleet.Ask(ctx, &questions[i])
	}
	return answers
}
