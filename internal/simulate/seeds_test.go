package simulate

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/retrydecider/decider/internal/decide"
)

// tableCase is a case of the vectors of the group seeds-tables.
type tableCase struct {
	ID    string `json:"id"`
	Table string `json:"table"`
	Input struct {
		Strategy string    `json:"strategy"`
		Base     int64     `json:"base_ms"`
		Cap      int64     `json:"cap_ms"`
		Retries  int       `json:"retries"`
		Clients  int       `json:"clients"`
		Seed     uint32    `json:"seed"`
		Slot     float64   `json:"slot_ms"`
		Layers   []string  `json:"retrying_layers"`
		Attempts int       `json:"attempts"`
		Requests int       `json:"requests"`
		Budget   *struct{} `json:"budget"`
	} `json:"input"`
	Expect json.RawMessage `json:"expect"`
}

func (c *tableCase) crowd(t *testing.T) crowd {
	s, ok := decide.ParseStrategy(c.Input.Strategy)
	if !ok {
		t.Fatalf("%s: no strategy %q", c.ID, c.Input.Strategy)
	}
	return crowd{decide.Backoff{Strategy: s, Base: c.Input.Base, Cap: c.Input.Cap, Multiplier: 2}, c.Input.Retries, c.Input.Clients, c.Input.Seed, c.Input.Slot}
}

// into reads what a case expects.
func (c *tableCase) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(c.Expect, v); err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
}

func round6(x float64) float64 { return math.Round(x*1e6) / 1e6 }

var tableKinds = map[string]func(*testing.T, *tableCase){
	"schedule": func(t *testing.T, c *tableCase) {
		type shown struct {
			Mean    float64 `json:"mean_ms"`
			Longest float64 `json:"longest_ms"`
			Busiest int     `json:"busiest_slot_calls"`
		}
		var want struct{ Printed, Real shown }
		c.into(t, &want)
		all := c.crowd(t)
		r := all.run()
		got := shown{round6(r.mean), round6(r.longest), r.busiest}
		if got != want.Real {
			t.Errorf("%s: %+v, want %+v", c.ID, got, want.Real)
		}
		if got := (shown{math.Round(r.mean), math.Round(r.longest), r.busiest}); got != want.Printed {
			t.Errorf("%s: prints %+v, want %+v", c.ID, got, want.Printed)
		}
	},
	"one_client": func(t *testing.T, c *tableCase) {
		var want struct {
			Waits []float64 `json:"waits_ms"`
		}
		c.into(t, &want)
		one := c.crowd(t)
		var got []float64
		for _, w := range one.waits(newTwister(one.seed)) {
			got = append(got, round6(w))
		}
		if diff := cmp.Diff(want.Waits, got); diff != "" {
			t.Errorf("%s: %s", c.ID, diff)
		}
	},
	"storm": func(t *testing.T, c *tableCase) {
		var want struct{ Calls int }
		c.into(t, &want)
		made := chain{attempts: c.Input.Attempts, layers: len(c.Input.Layers), budget: c.Input.Budget != nil}
		if got := made.calls(c.Input.Requests); got != want.Calls {
			t.Errorf("%s: %d calls, want %d", c.ID, got, want.Calls)
		}
	},
	"mt19937": func(t *testing.T, c *tableCase) {
		var want struct {
			Doubles []float64
			Words   []uint32
		}
		c.into(t, &want)
		m := newTwister(c.Input.Seed)
		for i, x := range want.Doubles {
			if got := m.float(); got != x {
				t.Errorf("%s: double %d is %v, want %v", c.ID, i, got, x)
			}
		}
		m = newTwister(c.Input.Seed)
		for i, x := range want.Words {
			if got := m.word(); got != x {
				t.Errorf("%s: word %d is %d, want %d", c.ID, i, got, x)
			}
		}
	},
}

func TestSeedsTables(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/seeds-tables.json")
	if err != nil {
		t.Fatal(err)
	}
	var group struct{ Cases []tableCase }
	if err := json.Unmarshal(src, &group); err != nil {
		t.Fatal(err)
	}
	for i := range group.Cases {
		c := &group.Cases[i]
		check, ok := tableKinds[c.Table]
		if !ok {
			t.Errorf("%s: no check for tables of kind %q", c.ID, c.Table)
			continue
		}
		check(t, c)
	}
}

// What else the texts print.
func TestSeedsPrinted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		made chain
		want int
	}{{chain{3, 3, false}, 27}, {chain{4, 4, false}, 256}, {chain{3, 5, false}, 243}} {
		if got := c.made.calls(1); got != c.want {
			t.Errorf("%+v: %d calls, want %d", c.made, got, c.want)
		}
	}
	if got := (chain{3, 1, true}).calls(1000); got != 1109 {
		t.Errorf("a budget lets %d calls through, want 1109", got)
	}
	table := schedules()
	for i, want := range [][]string{
		{"constant", "500", "500", "10000"}, {"exponential", "2500", "2500", "10000"}, {"full_jitter", "1241", "2357", "1461"},
		{"equal_jitter", "1870", "2429", "2048"}, {"decorrelated_jitter", "2371", "4182", "647"},
	} {
		if diff := cmp.Diff(want, shown(table, i)); diff != "" {
			t.Error(diff)
		}
	}
	first := oneClient()
	for i, want := range [][]string{
		{"constant", "100", "100", "100", "100", "100"}, {"exponential", "100", "200", "400", "800", "1000"}, {"full_jitter", "45", "112", "370", "373", "508"},
		{"equal_jitter", "73", "156", "385", "586", "754"}, {"decorrelated_jitter", "190", "364", "1000", "1000", "1000"},
	} {
		if diff := cmp.Diff(want, shown(first, i)); diff != "" {
			t.Error(diff)
		}
	}
	jitter := jitterExamples()
	for i, want := range [][]string{
		{"exponential", "0.10", "0.20", "0.40", "0.80", "1.60", "3.20"}, {"full_jitter", "0.06", "0.01", "0.11", "0.18", "1.18", "-"},
		{"equal_jitter", "0.08", "0.19", "0.22", "0.57", "0.82", "-"}, {"decorrelated_jitter", "0.14", "0.27", "0.12", "0.15", "0.33", "-"},
	} {
		if diff := cmp.Diff(want, shown(jitter, i)); diff != "" {
			t.Error(diff)
		}
	}
}

func shown(t *Table, row int) (cells []string) {
	for i, c := range t.Rows[row] {
		cells = append(cells, c.show(t.Head[i]))
	}
	return cells
}
