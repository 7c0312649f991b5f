package simulate

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Need is what a budget is sized for.
type Need struct {
	// Rate of new calls per second, and Capacity in attempts per second.
	Rate, Capacity float64
	// FailureRate of attempts that callers should not notice.
	FailureRate float64
	// Attempts at most per call, the first included.
	Attempts int
	// Clients and Service are for the run that supports the proposal.
	Clients int
	Service time.Duration
}

// Proposal is a budget, with what it trades.
type Proposal struct {
	Need Need
	// Ratio of a token per success, Tokens that a full bucket holds at this
	// rate, and Floor in tokens per second.
	Ratio, Tokens, Floor float64
	// Wanted is the ratio that the failure rate alone asks for.
	Wanted float64
}

const (
	// headroomShare is how much of the spare capacity retries may take: the rest
	// is for what the estimate does not know.
	headroomShare = 0.8
	leastTokens   = 10
)

// Size proposes a budget.
func Size(n Need) (Proposal, error) {
	switch {
	case !(n.Rate > 0 && n.Rate <= maxRate):
		return Proposal{}, fmt.Errorf("a rate is above 0 and at most %d calls per second, not %g", maxRate, n.Rate)
	case !(n.FailureRate >= 0 && n.FailureRate < 1):
		return Proposal{}, fmt.Errorf("a failure rate is from 0 to below 1, not %g", n.FailureRate)
	case !(n.Capacity > n.Rate && n.Capacity <= 100*maxRate):
		return Proposal{}, fmt.Errorf("a capacity of %g/s leaves no room for a retry at %g calls/s: without spare capacity every retry displaces a first attempt, so max_attempts: 1", n.Capacity, n.Rate)
	case n.Attempts < 2 || n.Attempts > 100:
		return Proposal{}, fmt.Errorf("a call has 2 to 100 attempts, not %d", n.Attempts)
	case n.Clients < 1 || n.Clients > maxClients:
		return Proposal{}, fmt.Errorf("a fleet has 1 to %d clients, not %d", maxClients, n.Clients)
	case n.Service <= 0 || n.Service > longest:
		return Proposal{}, fmt.Errorf("a service time is above 0s and at most %s, not %s", longest, n.Service)
	}
	p := Proposal{Need: n, Wanted: n.retriesWanted()}
	room := float64(headroomShare * n.headroom())
	p.Floor = min(max(leastFloor, float64(floorShare*n.Rate)), float64(room*n.Rate/2))
	ceiling := room - float64(p.Floor/n.Rate)
	p.Ratio = percent(min(max(p.Wanted, 0.01), 1), math.Ceil)
	if p.Ratio > ceiling {
		p.Ratio = max(percent(ceiling, math.Floor), 0.001)
	}
	p.Tokens = max(leastTokens, float64(p.Ratio*n.Rate))
	return p, nil
}

// headroom is the spare capacity as a share of the rate.
func (n Need) headroom() float64 { return n.Capacity/n.Rate - 1 }

// retriesWanted is how many retries a call needs on average where each attempt
// fails with the failure rate, per success: p + p² + ….
func (n Need) retriesWanted() float64 {
	sum, power := 0.0, 1.0
	for range n.Attempts - 1 {
		power = float64(power * n.FailureRate)
		sum += power
	}
	return sum / (1 - float64(power*n.FailureRate))
}

// percent is a share in whole percents.
func percent(x float64, round func(float64) float64) float64 {
	return round(float64(x*100)+float64(1e-9*(0.5-x))) / 100
}

// Words are the proposal in a policy file.
func (p *Proposal) Words() string {
	return fmt.Sprintf("max_attempts: %d\nbudget: {ratio: %s%%, capacity: %d, capacity_seconds: 1, min_per_second: %s}", p.Need.Attempts,
		decimal(float64(p.Ratio*100), 1), leastTokens, decimal(p.Floor, 3))
}

// success of calls where each attempt fails with probability f, under the
// budget; load is attempts per call.
func (p *Proposal) at(f float64) (success, load float64) {
	n := p.Need
	power := math.Pow(f, float64(n.Attempts))
	success, load = 1-power, (1-power)/(1-f)
	floor := p.Floor / n.Rate
	if spent := float64(p.Ratio*success) + floor; load-1 > spent { // more is wished than the budget holds
		success = float64((1-f)*(1+floor)) / (1 - float64(p.Ratio*(1-f)))
		load = 1 + float64(p.Ratio*success) + floor
	}
	return success, load
}

// Says is the proposal in plain words, one sentence each.
func (p *Proposal) Says() []string {
	n := p.Need
	success, load := p.at(n.FailureRate)
	free := 1 - math.Pow(n.FailureRate, float64(n.Attempts))
	outage := 1 + float64(p.Floor/n.Rate) + p.Tokens/float64(n.Rate*60)
	says := []string{
		fmt.Sprintf("At %s calls/s on %s/s there is room for %s retries per call; the proposal uses at most %s of it.", decimal(n.Rate, 1), decimal(n.Capacity, 1),
			decimal(n.headroom(), 2), percents(headroomShare, 0)),
		fmt.Sprintf("Where %s of attempts fail, callers would need %s retries per success; the budget pays for %s, so %s of calls end well (unlimited retries: %s) at %s times the load.",
			percents(n.FailureRate, 1), decimal(p.Wanted, 3), decimal(p.Ratio, 3), percents(success, 2), percents(free, 2), decimal(load, 3)),
		fmt.Sprintf("In a total outage of a minute the dependency gets %s times its normal load (unlimited retries: %s times), and at most %s retries in its first second.",
			decimal(outage, 3), decimal(float64(n.Attempts), 0), decimal(p.Tokens, 0)),
	}
	switch {
	case p.Ratio < p.Wanted-1e-9:
		says = append(says, fmt.Sprintf("The spare capacity is what bounds it: to hide %s of failures the capacity would have to be about %s/s.",
			percents(n.FailureRate, 1), decimal(math.Ceil(float64(n.Rate*(1+float64((p.Wanted+float64(p.Floor/n.Rate))/headroomShare)))), 0)))
	default:
		says = append(says, fmt.Sprintf("More failures than that are not hidden: at twice the rate, %s, %s of calls end well.",
			percents(min(2*n.FailureRate, 0.99), 1), percents(p.successAt(min(2*n.FailureRate, 0.99)), 2)))
	}
	if float64(float64(n.Attempts)*n.Rate) > n.Capacity {
		says = append(says, fmt.Sprintf("Unlimited retries would keep it down after the cause has gone: %d attempts of %s calls/s are more than %s/s.",
			n.Attempts, decimal(n.Rate, 1), decimal(n.Capacity, 1)))
	}
	return says
}

func (p *Proposal) successAt(f float64) float64 {
	success, _ := p.at(f)
	return success
}

func percents(x float64, decimals int) string { return decimal(float64(x*100), decimals) + " %" }

// Contender is the proposal as a contender of a run.
func (p *Proposal) Contender() Contender {
	return fleet("proposed", "the proposal", func(*Model) string { return p.Words() })
}

// Scenario is the run that supports the proposal: the failure rate, an outage,
// and a short loss of most of the capacity.
func (p *Proposal) Scenario() *Scenario {
	n := p.Need
	m := fleetOf(n.Clients, n.Rate, max(int(math.Round(float64(n.Capacity*n.Service.Seconds()))), 1), n.Service)
	m.Service = time.Duration(float64(float64(m.Workers)/n.Capacity) * 1e9) // whole workers, the same capacity
	m.Retries = n.Attempts - 1
	cut := m.during(20*second, 30*second, 90*second, Fault{Kind: FaultSlow, Factor: 5})
	return &Scenario{Name: "size", Title: "The run that supports it", Seeds: 1, Compared: []string{"none", "full-jitter"},
		About: fmt.Sprintf("%d clients, %s calls/s, a capacity of %s/s.", n.Clients, decimal(n.Rate, 1), decimal(n.Capacity, 1)),
		Points: []Point{{Label: percents(n.FailureRate, 1) + " of attempts fail for 60 s", Model: m.failing(n.FailureRate)},
			{Label: "a total outage of 60 s", Model: m.outage()}, {Label: "four fifths of the capacity lost for 10 s", Model: cut}}}
}

// String is the proposal as a command prints it.
func (p *Proposal) String() string {
	return p.Words() + "\n\n" + strings.Join(p.Says(), "\n") + "\n"
}
