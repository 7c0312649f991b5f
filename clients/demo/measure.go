package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// floorRate is the default policy's refill by time, in tokens a second.
const floorRate = 0.1

// load is the attempts over the first attempts from one instant to another.
func (r *result) load(from, to time.Duration) float64 {
	firsts, all := 0.0, 0.0
	for _, each := range r.arrivals {
		if each.at < from || each.at >= to {
			continue
		}
		all++
		if each.first {
			firsts++
		}
	}
	return all / max(firsts, 1)
}

// success is the share of good calls among those begun between two instants.
func (r *result) success(from, to time.Duration) float64 {
	good, all := 0.0, 0.0
	for _, each := range r.report.Calls {
		if each.At < from || each.At >= to {
			continue
		}
		all++
		if each.Good {
			good++
		}
	}
	return good / max(all, 1)
}

// formula is the load that a total outage of D seconds brings: 1 + tokens/(R·D),
// never more than 1 + retries. The tokens are those of all buckets at its begin;
// decider's bucket also gains by time, and by the successes of the last moments
// before, which are reported half a second late. The attempts that the waits
// carry past the end of the outage are not in it.
func (r *result) formula(p *plan) float64 {
	calls := p.Rate * p.Outage.Seconds()
	ceiling := 1 + maxRetries - pastTheEnd/p.Outage.Seconds()
	tokens := r.tokens
	switch r.fleet.Rule {
	case retries:
		return ceiling
	case asking:
		tokens += floorRate*p.Outage.Seconds() + ratio*p.Rate*late
	}
	if r.fleet.Killed { // each client's own bucket, of one token; some calls spend none of it
		tokens += float64(r.fleet.Clients) * r.aloneShare(p)
	}
	return min(1+tokens/calls, ceiling)
}

// late is how old a success is, in seconds, when it is reported, on average.
const late = 0.5

// pastTheEnd is the sum of the mean waits, in seconds, before each of three
// retries with full jitter from 100 ms.
const pastTheEnd = 0.05 + 0.15 + 0.35

// aloneShare is the share of the clients that have a failure to decide on while
// the deciders are away, in a stream without memory.
func (r *result) aloneShare(p *plan) float64 {
	away := (p.ReturnAt - p.StallAt).Seconds()
	mean := p.Rate / float64(r.fleet.Clients) * away
	return 1 - math.Exp(-mean)
}

// p99 is of the calls begun between two instants, waits before retries apart.
func (r *result) p99(in func(at time.Duration) bool) time.Duration {
	var took []time.Duration
	for _, each := range r.report.Calls {
		if in(each.At) {
			took = append(took, each.Took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// backAfter is when the last decision without decider fell, after the return.
func (r *result) backAfter() time.Duration {
	last := time.Duration(0)
	for _, at := range r.report.Alone {
		last = max(last, at-r.returned)
	}
	return last
}

// outageP99 is the p99 of calls in the outage with the deciders there, and away.
func (r *result) outageP99(p *plan) (there, away time.Duration) {
	begin, end := p.Healthy, p.Healthy+p.Outage
	gone, back := begin+p.StallAt, r.returned
	there = r.p99(func(at time.Duration) bool { return at >= begin && at < gone || at >= back && at < end })
	away = r.p99(func(at time.Duration) bool { return at >= gone && at < back })
	return there, away
}

func printTable(w io.Writer, p plan, results []*result) {
	begin, end := p.Healthy, p.Healthy+p.Outage
	fmt.Fprintf(w, "An outage of %s, %.0f calls a second:\n\n", p.Outage, p.Rate)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tclients\tload in the outage\tformula\tits first second\tsuccess before\tin the outage\tafter\t")
	for _, each := range results {
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.2f\t%.1f %%\t%.1f %%\t%.1f %%\t\n", each.fleet.Name, each.fleet.Clients, each.load(begin, end), each.formula(&p),
			each.load(begin, begin+time.Second), 100*each.success(0, begin-time.Second/2), 100*each.success(begin, end-callLimit/10), 100*each.success(end, p.total()))
	}
	_ = t.Flush()
	for _, each := range results {
		if each.fleet.Rule == asking {
			fmt.Fprintf(w, "\n%s, %d clients: %d decisions of decider, %d alone.", each.fleet.Name, each.fleet.Clients, len(each.report.Asked), len(each.report.Alone))
		}
	}
	fmt.Fprintln(w)
	for _, each := range results {
		if each.fleet.Killed {
			there, away := each.outageP99(&p)
			fmt.Fprintf(w, "\nWhile the deciders were away a call's p99, waits before retries apart, was %d ms (else %d ms); "+
				"%d decisions fell alone, the last one %.1f s after the deciders were back.\n",
				away.Milliseconds(), there.Milliseconds(), len(each.report.Alone), max(each.backAfter(), 0).Seconds())
		}
	}
}

// What must be shown.
const (
	agreement = 0.10
	maxKilled = 1.1
	maxBack   = 5 * time.Second
)

// check says what is not as it should be.
func check(p plan, results []*result) (wrong []string) {
	begin, end := p.Healthy, p.Healthy+p.Outage
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var perClient []float64 // from the largest fleet to the smallest
	for _, each := range results {
		name := fmt.Sprintf("%s, %d clients", each.fleet.Name, each.fleet.Clients)
		load, formula := each.load(begin, end), each.formula(&p)
		if load < formula*(1-agreement) || load > formula*(1+agreement) {
			say("%s: load %.3f, by the formula %.3f", name, load, formula)
		}
		if after := each.success(end+time.Second/10, p.total()); after < 0.99 {
			say("%s: %.1f %% success after the outage", name, 100*after)
		}
		floor := floorRate / p.Rate
		switch {
		case each.fleet.Rule == retries && load < p.MinRetries:
			say("%s: load %.3f, want %.1f at least", name, load, p.MinRetries)
		case each.fleet.Rule == bucket:
			perClient = append(perClient, load)
		case each.fleet.Killed:
			checkKilled(&p, each, load, name, say)
		case each.fleet.Rule == asking && load > p.MaxDecider+floor:
			say("%s: load %.3f, want %.3f at most", name, load, p.MaxDecider+floor)
		case each.fleet.Rule == asking && len(each.report.Asked) == 0:
			say("%s: nobody asked", name)
		}
	}
	for i := 1; i < len(perClient); i++ {
		if perClient[i-1] <= perClient[i] {
			say("buckets per client: load %.3f with more clients, %.3f with fewer", perClient[i-1], perClient[i])
		}
	}
	return wrong
}

func checkKilled(p *plan, r *result, load float64, name string, say func(string, ...any)) {
	if load > maxKilled {
		say("%s: load %.3f, want %.1f at most", name, load, maxKilled)
	}
	if there, away := r.outageP99(p); away > there+p.AskTimeout+p.Noise {
		say("%s: a call's p99 rose from %s to %s, want %s at most", name, there, away, p.AskTimeout)
	}
	if back := r.backAfter(); back > maxBack {
		say("%s: the last decision alone fell %s after the deciders were back", name, back)
	}
	if len(r.report.Alone) == 0 {
		say("%s: no decision fell alone", name)
	}
}
