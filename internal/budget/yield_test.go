package budget

import (
	"testing"

	"github.com/retrydecider/decider/internal/decide"
)

// yields is the tests' rule with ratio_max 50 %: ratio 10 %, ten tokens.
func yields(p *decide.Policy) { p.Budget.RatioMax = 500_000 }

// won reports so many retries that succeeded.
func won(retries int64) action { return reports(report{retries: retries}) }

// lost tells of so many retries that failed.
func lost(retries int64) action { return tells(failures{count: retries}) }

func TestYield(t *testing.T) {
	t.Parallel()
	play(t, []script{
		{"too few retries tell nothing", yields, []step{
			{0, asks(10), "10 granted"},
			{0, won(19 - 10), ""},
			{0, success(100), ""},
			{0, asks(11), "10 granted, 1 no tokens"},
		}},
		{"retries that help are given more", yields, []step{
			{0, asks(10), "10 granted"}, // each of them failed
			{0, won(90), ""},            // nine of ten helped; the ratio brings 9, the rest 40 % of 90
			{0, asks(60), "45 granted, 15 no tokens"},
		}},
		{"and not above as many bucketfuls as ratio_max is ratios more", yields, []step{
			{0, won(1000), ""},
			{0, success(100_000), ""},
			{0, asks(100), "50 granted, 50 no tokens"},
		}},
		{"throttles and timeouts are not paid so", yields, []step{
			{0, won(1000), ""},
			{0, success(1000), ""},
			{0, asks(20, throttled), "10 granted, 10 no tokens"},
			{0, ask(), "granted 0/10"},
		}},
		{"an outage takes back what was earned", yields, []step{
			{0, won(100), ""},
			{0, success(1000), ""},
			{0, lost(150), ""}, // 100 of 250 helped
			{0, asks(20), "10 granted, 10 no tokens"},
		}},
		{"without ratio_max nothing of it holds", nil, []step{
			{0, won(1000), ""},
			{0, asks(11), "10 granted, 1 no tokens"},
		}},
	})
}
