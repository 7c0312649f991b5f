package simulate

import (
	"fmt"
	"math"
)

// What the published code prints, for the goals and the tests.

// occPublished is the code of "Exponential Backoff And Jitter", 100 runs: ms and
// writes by clients, in the order of occStrategies.
var occPublished = map[int][5][2]float64{
	10:  {{3408, 50}, {727, 43}, {455, 39}, {442, 37}, {385, 51}},
	20:  {{14450, 150}, {1652, 108}, {1003, 100}, {835, 100}, {595, 151}},
	50:  {{36830, 626}, {4318, 348}, {2893, 333}, {2123, 375}, {1140, 690}},
	100: {{63432, 1852}, {6620, 812}, {4827, 795}, {4565, 998}, {2027, 2418}},
	150: {{85545, 3561}, {8317, 1325}, {6451, 1318}, {6565, 1760}, {2864, 5136}},
	190: {{101315, 5162}, {9482, 1760}, {7495, 1772}, {7866, 2445}, {3538, 8007}},
}

// bucketsPublished is the code of "Fixing retries with token buckets and circuit
// breakers", 20 s: success and load in percent by failure rate, in the order of
// compared2022.
var bucketsPublished = map[float64][4][2]float64{
	1:  {{99.02, 100}, {100.00, 101.0}, {100.00, 100.9}, {99.93, 100.9}},
	5:  {{95.03, 100}, {100.00, 105.4}, {99.98, 105.4}, {99.27, 104.4}},
	10: {{90.02, 100}, {100.00, 111.0}, {98.92, 109.8}, {92.67, 103.0}},
	20: {{79.80, 100}, {99.84, 124.4}, {89.52, 111.8}, {80.61, 100.2}},
	30: {{70.22, 100}, {99.18, 141.5}, {78.46, 112.0}, {70.17, 100.0}},
	50: {{50.14, 100}, {93.73, 188.3}, {55.78, 112.1}, {50.40, 100.0}},
	75: {{24.42, 100}, {68.55, 273.0}, {27.90, 112.2}, {24.64, 100.0}},
}

// goalPublishedRuns is over how many runs the figures of 2015 are averaged: an
// exponential wait without jitter varies by a third from run to run.
const goalPublishedRuns = 100

func goalPublished(g *goalRun) Finding {
	runs := goalPublishedRuns
	if g.seeds > 0 {
		runs = 30
	}
	ms, writes := 0.0, 0.0
	for _, n := range occClients() {
		for i, s := range occStrategies {
			took, sent := occMean(s.backoff, n, runs)
			ms = max(ms, math.Abs(took/occPublished[n][i][0]-1))
			writes = max(writes, math.Abs(sent/occPublished[n][i][1]-1))
		}
	}
	points := 0.0
	r := g.play(brooker2022(), nil, compared2022...)
	for i := range r.Rows {
		row := &r.Rows[i]
		for j, name := range compared2022 {
			if name == row.Contender {
				points = max(points, math.Abs(successOf(&row.Score)-bucketsPublished[row.Point.X][j][0]))
			}
		}
	}
	blip := g.play(hotos2021(), nil, "fixed").Find("1 retry", "fixed")
	if blip == nil {
		return Finding{}
	}
	met := ms <= 0.10 && writes <= 0.05 && points <= 1 && math.Abs(blip.Score.Extra[0]-560) <= 10
	return Finding{Met: met, Value: fmt.Sprintf("at most %.1f %% and %.1f %%; %.2f points; %.0f/s", 100*ms, 100*writes, points, blip.Score.Extra[0])}
}
