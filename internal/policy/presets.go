package policy

import (
	"fmt"
	"strings"
	"sync"

	"github.com/retrydecider/decider/internal/decide"
)

// builtInPresets are the presets that every file can name, in the words of a
// policy file. All but standard are written over standard. Where a system's
// budget lives in one process, its ratio and its costs are kept and its size is
// the least size of the fleet's, which grows with the traffic.
const builtInPresets = `version: 1
presets:
  # decider's own: one 100 ms window that doubles to 1 s, and a tenth of a retry for each success.
  standard:
    description: "decider's own default: 4 attempts, full jitter from 100 ms to 1 s, one retry for ten successes"
    max_attempts: 4
    backoff: {strategy: full_jitter, base: 100ms, cap: 1s, multiplier: 2, min: 0s, jitter: 20%}
    retry_after: {max: 60s, spread: 10%, headers: [retry-after]}
    repeat: idempotent
    min_attempt: 0s
    budget: {ratio: 10%, ratio_max: 0%, capacity: 10, capacity_seconds: 1, min_per_second: 0.1, deposit_on: success, cost: {default: 1}, caller_share: 0%}
    breaker: {mode: "off", failure_ratio: 50%, min_attempts: 20, window: 10s, open_for: 5s, probes: 1}
    cool_down: auto
    on_store_failure: local

  # AWS repeats whatever it lists, of any method: who names an AWS preset vouches that every call may be repeated.
  aws-2026:
    description: "the AWS SDKs' standard mode of 2026, as aws-sdk-go-v2 aws/retry (retry2026_test.go) and smithy-typescript publish it"
    max_attempts: 3
    backoff: {strategy: full_jitter, base: 50ms, cap: 20s, multiplier: 2, throttle: {base: 1s}}
    retry_after: {max: 25s, spread: 0%, headers: [x-amz-retry-after, retry-after]}
    retryable: {remove: [408, 413, 421, 425, 520, 521, 522, 523, 524, 527, 529]}
    repeat: any
    budget: {ratio: 100%, capacity: 500, capacity_seconds: 1, min_per_second: 0, cost: {default: 14, throttle: 5}}

  aws-standard:
    description: "the AWS SDKs' standard mode before 2026, as botocore retries/standard.py and quota.py publish it; no hint of the server is read"
    max_attempts: 3
    backoff: {strategy: full_jitter, base: 1s, cap: 20s, multiplier: 2}
    retry_after: {max: 20s, spread: 0%, headers: []}
    retryable: {remove: [408, 413, 421, 425, 520, 521, 522, 523, 524, 527, 529]}
    repeat: any
    budget: {ratio: 100%, capacity: 500, capacity_seconds: 1, min_per_second: 0, cost: {default: 5, timeout: 10}}

  # 300 s is linkerd2-proxy's bound; the proposal sets none.
  grpc:
    description: "gRPC's example of a retry policy, UNAVAILABLE alone and 10 tokens, as grpc/proposal A6-client-retries.md publishes it"
    max_attempts: 4
    backoff: {strategy: proportional_jitter, base: 100ms, cap: 1s, multiplier: 2, jitter: 20%}
    retry_after: {max: 300s, spread: 0%, headers: [grpc-retry-pushback-ms]}
    retryable: {remove: [408, 413, 421, 425, 429, 500, 502, 504, 520, 521, 522, 523, 524, 527, 529, timeout]}
    repeat: any
    budget: {ratio: 10%, capacity: 10, capacity_seconds: 1, min_per_second: 0}

  envoy:
    description: "Envoy's retry_on: 5xx with its defaults, as source/common/router/retry_state_impl.cc has them"
    max_attempts: 2
    backoff: {strategy: full_jitter, base: 25ms, cap: 250ms, multiplier: 2}
    retry_after: {max: 300s, spread: 50%, headers: [retry-after]}
    retryable:
      add: [501, 505, 506, 507, 508, 510, 511, 525, 526, 530]
      remove: [408, 413, 421, 425, 429]
    repeat: any
    budget: {ratio: 20%, capacity: 3, capacity_seconds: 1, min_per_second: 3, deposit_on: request}

  google:
    description: "Google's client libraries, AIP-194 as google-cloud-rust (Aip194Strict) has it: UNAVAILABLE and lost connections, from 1 s to 60 s"
    max_attempts: 10
    backoff: {strategy: full_jitter, base: 1s, cap: 60s, multiplier: 2}
    retry_after: {max: 60s, spread: 0%, headers: []}
    retryable: {remove: [408, 413, 421, 425, 429, 500, 502, 504, 520, 521, 522, 523, 524, 527, 529, timeout]}

  # Full jitter from 2 s has the means of Polly's own jitter from the second retry on.
  dotnet:
    description: ".NET's standard resilience handler, as dotnet/extensions (Microsoft.Extensions.Http.Resilience) and its HttpRetryBudgetOptions have it"
    max_attempts: 4
    backoff: {strategy: full_jitter, base: 2s, cap: 30s, multiplier: 2}
    retry_after: {max: 30s, spread: 0%, headers: [retry-after]}
    retryable:
      add: [501, 505, 506, 507, 508, 510, 511, 525, 526, 530]
      remove: [413, 421, 425]
    repeat: any
    budget: {ratio: 10%, capacity: 10, capacity_seconds: 10, min_per_second: 0.1, deposit_on: request}

  urllib3:
    description: "urllib3's Retry with its default of 10 retries and no wait of its own, as src/urllib3/util/retry.py has it"
    max_attempts: 11
    backoff: {strategy: constant, base: 0s, cap: 120s}
    retry_after: {max: 6h, spread: 0%, headers: [retry-after]}
    retryable: {remove: [408, 421, 425, 500, 502, 504, 520, 521, 522, 523, 524, 527, 529]}

  stripe:
    description: "Stripe's client for Python, which reads stripe-should-retry and no Retry-After, as stripe/_http_client.py has it"
    max_attempts: 3
    backoff: {strategy: equal_jitter, base: 500ms, cap: 5s, multiplier: 2, min: 500ms}
    retry_after: {max: 60s, spread: 0%, headers: [stripe-should-retry]}
    retryable:
      add: [409, 501, 505, 506, 507, 508, 510, 511, 525, 526, 530]
      remove: [408, 413, 421, 425, 429]

  none:
    description: "never retries: a dependency can be switched off by name"
    max_attempts: 1
`

// Preset is a built-in preset.
type Preset struct {
	Name string
	// Description is one sentence: what it does and whose rules it reproduces.
	Description string
	// Sources are where its numbers are published.
	Sources []string
	// Fleet says how a budget of one process is read for the fleet, "" where the
	// preset is the fleet's already.
	Fleet string
	// Cannot is what the words of a policy file cannot say of it.
	Cannot []string
	// Policy is the rule that it comes to.
	Policy *decide.Policy
}

// BuiltInPresets lists the built-in presets, standard first.
func BuiltInPresets() []Preset {
	var list []Preset
	for _, r := range built().order {
		of := publishedOf[r.name]
		list = append(list, Preset{r.name, string(said(r.words.Description)), of.sources, of.fleet, of.cannot, built().byName[r.name].policy(r.name)})
	}
	return list
}

// FindPreset finds a built-in preset. The error names the nearest one.
func FindPreset(name string) (Preset, error) {
	for _, p := range BuiltInPresets() {
		if p.Name == name {
			return p, nil
		}
	}
	return Preset{}, fmt.Errorf("there is no built-in preset %q%s", shorten(name), didYouMean(name, Presets()))
}

// Presets lists the names of the built-in presets, standard first.
func Presets() []string {
	var list []string
	for _, r := range built().order {
		list = append(list, r.name)
	}
	return list
}

// builtIn is a built-in preset, nil where there is none of the name.
func builtIn(name string) *layers { return built().byName[name] }

// shelf holds the built-in presets.
type shelf struct {
	order  rules
	byName map[string]*layers
}

// built reads the built-in presets once. A mistake in them is a mistake of the
// program, which every test finds.
var built = sync.OnceValue(func() *shelf {
	s, src := newSource("built-in", []byte(builtInPresets))
	words := s.words(src)
	c := newCompiler(s)
	all := &shelf{order: *words.Presets, byName: map[string]*layers{}}
	below := &layers{sound: true, words: ruleWords{judgedWords: judgedWords{Budget: &budgetWords{Off: ptr(truth(false))}}}}
	for _, r := range all.order {
		l := c.lay(r, below)
		l.isPreset(r.name)
		l.depth = 0
		all.byName[r.name] = l
		below = all.byName["standard"]
	}
	if err := s.err(); err != nil {
		panic("policy: built-in presets: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return all
})
