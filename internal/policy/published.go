package policy

// published is what a built-in preset reproduces: where that is published, how
// its budget is read for a fleet, and what the words of a policy file cannot say
// of it.
type published struct {
	sources []string
	fleet   string
	cannot  []string
}

// perProcess begins what is said of budgets that live in one process.
const perProcess = "Its budget lives in each process. For the fleet its ratio and its costs are kept and its size is the least size: "

var publishedOf = map[string]published{
	"standard": {sources: []string{"decider's own contract"}},
	"none":     {sources: []string{"decider's own contract"}},
	"aws-2026": {
		sources: []string{"aws/aws-sdk-go-v2 v1.48.0 aws/retry: standard, jitter_backoff, retryable_error, retry2026_test", "smithy-lang/smithy-typescript 6815d3e"},
		fleet:   perProcess + "500 tokens, or one second of successes where that is more; a retry costs 14 successes, so at most 7.1 % of them.",
		cannot: []string{"the refund of the last retry's cost when it succeeds", "a hint cut to the own wait and 5 s more: a server's wait is never undercut here", "a name that does not exist apart from other failures to resolve one",
			"the wait before the error of a long poll", "throttling codes in the body: the client reports them as 429, and RequestTimeout as 503"},
	},
	"aws-standard": {
		sources: []string{"boto/botocore 0e6e240 botocore/retries: standard, quota", "smithy-lang/smithy-rs 56ee88c"},
		fleet:   perProcess + "500 tokens, or one second of successes where that is more; a retry costs 5 successes, one after a timeout 10.",
		cannot:  []string{"the refund of the last retry's cost when it succeeds", "a bare 429 that botocore does not retry, where Go and JavaScript do: the preset retries it", "the legacy mode", "a server's wait: botocore reads none, and retry_after: {headers: [retry-after]} has it obeyed"},
	},
	"grpc": {
		sources: []string{"grpc/proposal 1fd061a A6-client-retries", "grpc/grpc-go 4793ad0"},
		fleet:   perProcess + "a channel's 10 tokens allow 4 retries in a row, since more than half must stay; the fleet's 10 allow 10.",
		cannot:  []string{"the threshold at half of the tokens", "the charge of attempts that were refused, stopped or the last", "the exponent that starts anew after a pushback", "transparent retries that are free", "hedging", "an unbounded pushback: 300 s is linkerd2-proxy's bound"},
	},
	"envoy": {
		sources: []string{"envoyproxy/envoy 01c2c1f source/common/router/retry_state_impl, source/common/common/backoff_strategy", "envoyproxy/envoy 0825320 reset_header_parser"},
		fleet:   "Its budget is a share of the requests in flight of one proxy, 3 at least. For the fleet it is 20 % of the requests, whatever their end, and 3 tokens and 3 a second.",
		cannot:  []string{"a share of requests in flight", "a reset above 300 s that is ignored: here it ends in a give-up", "a limit of x-ratelimit-reset as a Unix time", "a route's timeout apart from a try's", "x-envoy-ratelimited as a no"},
	},
	"google": {
		sources: []string{"googleapis/google-cloud-rust 4084332 src/gax retry_policy, exponential_backoff", "AIP-194"},
		fleet:   "It has no budget by default; standard's is kept.",
		cannot:  []string{"the limit of 60 s for the whole call: pass remaining_ms", "the optional throttlers", "python-api-core's own list: only: [429, 500, 503]"},
	},
	"dotnet": {
		sources: []string{"dotnet/extensions 5862342 Microsoft.Extensions.Http.Resilience, #7686 HttpRetryBudgetOptions", "App-vNext/Polly 173d6d1"},
		fleet:   perProcess + "10 % of the requests of ten seconds, 10 tokens at least and one in ten seconds. Before .NET 11 there was none.",
		cannot:  []string{"Polly's V2 jitter: full jitter from 2 s has its means from the second retry on", "a past date that is retried at once", "the limit of 30 s for the whole call: pass remaining_ms", "its breaker is left off; it would be breaker: {mode: all, failure_ratio: 10%, min_attempts: 100, window: 30s, open_for: 5s}"},
	},
	"urllib3": {
		sources: []string{"urllib3/urllib3 6a8536b src/urllib3/util/retry"},
		fleet:   "It has no budget; standard's is kept.",
		cannot:  []string{"429 and 503 retried only with a Retry-After: say with_retry_after: [413, 429, 503] for that", "a first retry at once under a backoff factor", "a wait above 6 h that is cut to it: here it ends in a give-up", "an unreadable Retry-After that fails the call"},
	},
	"stripe": {
		sources: []string{"stripe/stripe-python 6c6e373 stripe/_http_client"},
		fleet:   "It has no budget; standard's is kept.",
		cannot:  []string{"the key that its client adds to every POST: a POST without one is not its client's, and gives up"},
	},
}
