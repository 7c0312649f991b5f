package simulate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/retrydecider/decider/internal/decide"
	"github.com/retrydecider/decider/internal/policy"
)

// Contender is a way to bound a fleet's retries.
type Contender struct {
	// Name on the command line, and About in a few words.
	Name, About string
	make        func(r *run) rule
}

// The waits of the rules that are not decider's, unless they have their own.
var (
	fullJitter = decide.Backoff{Strategy: decide.FullJitter, Base: 100, Cap: 2000, Multiplier: 2}
	awsWaits   = decide.Backoff{Strategy: decide.FullJitter, Base: 50, Cap: 20_000, Multiplier: 2}
)

func waits(s decide.Strategy) decide.Backoff {
	b := fullJitter
	b.Strategy = s
	return b
}

// unbounded retries as often as the model says, after a strategy's waits.
func unbounded(name, about string, s decide.Strategy) Contender {
	return Contender{name, about, func(r *run) rule { return newLocal(r, r.model.Retries, waits(s), nil) }}
}

// bounded has an allowance of each client.
func bounded(name, about string, allowanceOf func(r *run) allowance) Contender {
	return Contender{name, about, func(r *run) rule { return newLocal(r, r.model.Retries, fullJitter, allowanceOf) }}
}

// fleet is decider under a rule's words, sized by the model.
func fleet(name, about string, words func(m *Model) string) Contender {
	return Contender{name, about, func(r *run) rule { return newCentral(r, mustRule(words(r.model))) }}
}

// mustRule reads words that the program wrote; a mistake in them is the program's.
func mustRule(words string) *decide.Policy {
	p, err := policy.ParseRule([]byte(words))
	if err != nil {
		panic("simulate: " + err.Error())
	}
	return p
}

// Decider is decider under a policy that was read from a file.
func Decider(name string, p *decide.Policy) Contender {
	return Contender{name, "the policy file's " + p.Name, func(r *run) rule { return newCentral(r, p) }}
}

// The floor of decider's budget in tokens per second: a share of the fleet's
// rate, and no less than leastFloor.
const (
	floorShare = 0.01
	leastFloor = 0.1
)

func floor(m *Model) float64 { return max(leastFloor, float64(floorShare*m.nominal())) }

// budgetWords are decider's defaults for a fleet of the model's size.
func budgetWords(m *Model, more string) string {
	return attemptWords(m) + fmt.Sprintf("budget: {ratio: 10%%, capacity: 10, capacity_seconds: 1, min_per_second: %s%s}", decimal(floor(m), 3), more)
}

// sized are the words that decider proposes for a fleet.
func sized(m *Model) string { return budgetWords(m, ", caller_share: 10%") }

func attemptWords(m *Model) string { return fmt.Sprintf("max_attempts: %d\n", m.Retries+1) }

// tokenWords are a bucket of the model's own size, with deposits as the words say.
func tokenWords(m *Model, words string) string {
	if m.Tokens > 0 {
		words += fmt.Sprintf(", capacity: %d, capacity_seconds: 0", m.Tokens)
	}
	return attemptWords(m) + "budget: {" + words + "}"
}

// decimal writes a number with at most so many decimals and no needless zeros.
func decimal(x float64, places int) string {
	s := strconv.FormatFloat(x, 'f', places, 64)
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// sizeWords are a proposal's, or the default's where there is no spare capacity
// to size it by.
func sizeWords(m *Model) string {
	p, err := Size(Need{Rate: m.nominal(), Capacity: m.Capacity(), FailureRate: 0.05, Attempts: m.Retries + 1, Clients: m.Clients, Service: m.Service})
	if err != nil {
		return sized(m)
	}
	return p.Words()
}

// pacedWords hand out slots at a little below the capacity, and no budget.
func pacedWords(m *Model) string {
	rate := float64(0.95 * m.Capacity())
	if rate == 0 {
		rate = max(m.nominal(), 1)
	}
	return attemptWords(m) + fmt.Sprintf("budget: off\nbackoff: {strategy: paced, rate: %s, cap: 2s}", decimal(rate, 3))
}

const breakerWords = "\nbreaker: {mode: %s, failure_ratio: 50%%, min_attempts: 20, window: 1s, open_for: 5s, probes: 1}"

// contenders in the order in which they are shown.
var contenders = []Contender{
	{"none", "no retry", func(r *run) rule { return newLocal(r, 0, fullJitter, nil) }},
	unbounded("fixed", "retries 100 ms apart", decide.Constant),
	unbounded("exponential", "retries, waits doubling from 100 ms, no jitter", decide.Exponential),
	unbounded("full-jitter", "retries, full jitter", decide.FullJitter),
	unbounded("equal-jitter", "retries, equal jitter", decide.EqualJitter),
	unbounded("decorrelated-jitter", "retries, decorrelated jitter", decide.DecorrelatedJitter),
	bounded("grpc", "gRPC's throttle, per client: 10 tokens, 0.1 a success", newGRPC),
	{"aws-2026", "the AWS SDKs' quota of 2026, per client: 500 tokens, 14 a retry, 2 retries", func(r *run) rule {
		return newLocal(r, min(r.model.Retries, 2), awsWaits, newAWS)
	}},
	bounded("finagle", "Finagle's and Linkerd's budget, per client: 20 % and 10 a second", newWindow),
	bounded("per-client", "10 % of successes, per client, burst 5", newPerClient(0.1, false)),
	bounded("per-client-request", "10 % of requests, per client, burst 5", newPerClient(0.1, true)),
	bounded("retry-breaker", "retries while at most 10 % fail, per client since its start", newRetryBreaker),
	fleet("decider", "decider sized for the fleet: 10 % of successes, a floor of 1 % of the rate, a tenth of it each caller's own", sized),
	fleet("decider-no-share", "the same without caller_share", func(m *Model) string { return budgetWords(m, "") }),
	fleet("decider-standard", "decider's preset standard as it is", func(*Model) string { return "preset: standard" }),
	fleet("decider-no-floor", "fed by successes alone", func(m *Model) string { return tokenWords(m, "min_per_second: 0") }),
	fleet("decider-request", "fed by requests, no floor", func(m *Model) string {
		return tokenWords(m, "deposit_on: request, min_per_second: 0")
	}),
	fleet("decider-size", "what decider simulate size proposes for 5 % of failures", sizeWords),
	fleet("decider-half-second", "the default with a bucket of half a second of deposits", func(m *Model) string {
		return strings.Replace(sized(m), "capacity_seconds: 1", "capacity_seconds: 0.5", 1)
	}),
	fleet("decider-yield", "the default, and up to 50 % of successes where retries are seen to help", func(m *Model) string {
		return budgetWords(m, ", caller_share: 10%, ratio_max: 50%")
	}),
	fleet("decider-paced", "no budget: the fleet's retries are handed slots, 95 % of the capacity a second", pacedWords),
	fleet("decider-breaker-retries", "the default, and a breaker of retries", func(m *Model) string {
		return sized(m) + fmt.Sprintf(breakerWords, "retries")
	}),
	fleet("decider-breaker-all", "the default, and a breaker of all attempts", func(m *Model) string {
		return sized(m) + fmt.Sprintf(breakerWords, "all")
	}),
}

// Contenders lists all that can be compared.
func Contenders() []Contender { return append([]Contender(nil), contenders...) }

// ByName finds contenders by their names.
func ByName(names ...string) ([]Contender, error) {
	var found []Contender
	for _, name := range names {
		c, ok := contender(name)
		if !ok {
			return nil, fmt.Errorf("no contender is called %q; known are %s", name, strings.Join(contenderNames(), ", "))
		}
		found = append(found, c)
	}
	return found, nil
}

func contender(name string) (Contender, bool) {
	for _, list := range [][]Contender{contenders, published} {
		for _, c := range list {
			if c.Name == name {
				return c, true
			}
		}
	}
	return Contender{}, false
}

func contenderNames() (names []string) {
	for _, c := range contenders {
		names = append(names, c.Name)
	}
	return names
}
