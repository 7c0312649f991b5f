package budget

import "github.com/retrydecider/decider/internal/decide"

// yield is how often retries have helped lately. Where they do, and only there,
// successes deposit more than the ratio: a fleet whose calls fail at random is
// spared errors that a small ratio would not retry, and an outage, in which no
// retry helps, is spared the retries.
type yield struct {
	// won and lost count retries that succeeded and that failed, in thousandths,
	// losing a tenth each second.
	won, lost int64
	// extra is what the yield has brought above the ratio.
	extra decide.Micro
}

const (
	// fewRetries of the last ten seconds are too few to tell, in thousandths.
	fewRetries = 20_000
	// poorYield is the share of retries, in thousandths, below which the ratio
	// is all there is; it rises in a line to ratio_max over a fifth more.
	poorYield = 400
	// maxYield bounds the counts, so that the share's products stay exact.
	maxYield = 1_000_000_000_000
	// maxExtra bounds how many bucketfuls the extra tokens can be.
	maxExtra = 9
)

func (y *yield) win(retries int64, r *decide.BudgetRule) {
	if r.RatioMax > 0 {
		y.won = min(y.won+1000*retries, maxYield)
	}
}

func (y *yield) lose(retries int64, r *decide.BudgetRule) {
	if r.RatioMax > 0 {
		y.lost = min(y.lost+1000*retries, maxYield)
	}
}

// share is how much of what lies between ratio and ratio_max the yield has
// earned, in thousandths.
func (y *yield) share() int64 {
	total := y.won + y.lost
	if total < fewRetries {
		return 0
	}
	return min(max((y.won*1000/total-poorYield)*5, 0), 1000)
}

// depositExtra adds what the yield earns for so many original calls.
func (b *bucket) depositExtra(calls int64, r *decide.BudgetRule) {
	if r.RatioMax <= r.Ratio {
		return
	}
	gain := min(calls*((r.RatioMax-r.Ratio)*b.yield.share()/1000), maxFlow)
	b.yield.extra = min(b.yield.extra+gain, b.extraCapacity(r))
}

// extraCapacity is how many extra tokens are kept: as many bucketfuls as
// ratio_max is ratios above the ratio, and fewer as the yield falls.
func (b *bucket) extraCapacity(r *decide.BudgetRule) decide.Micro {
	if r.RatioMax <= r.Ratio {
		return 0
	}
	times := int64(maxExtra)
	if r.Ratio > 0 {
		times = min(max((r.RatioMax-r.Ratio)/r.Ratio, 1), maxExtra)
	}
	return capacity(b.flow, r) * (times * b.yield.share()) / 1000
}

// spendExtra pays a plain failure's retry with extra tokens, where they are
// enough. Throttles and timeouts say that capacity is what lacks, and more
// retries do not bring it.
func (b *bucket) spendExtra(p *decide.Policy, q *question) bool {
	if q.kind != decide.Plain || p.Budget.RatioMax == 0 || b.yield.extra < q.cost {
		return false
	}
	b.yield.extra -= q.cost
	return true
}
