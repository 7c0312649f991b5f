package policy

// The words of a policy file. Their tags are read by read.go, and the JSON
// Schema and the example file are generated from them:
//
//	json      the word
//	min, max  the bounds, both allowed, written as in a file
//	decimals  how many are kept; more are a mistake
//	rounds    how many are kept; more are rounded
//	enum      the words that are allowed
//	default   what holds where no layer says anything
//	example   what a rule could say
//	off       whether off, which YAML 1.1 writes false, is one of them
//	unit      of a number
//	apart     the example says something else than its neighbours' do
//	doc       one sentence or two for an editor
//
// A nil member was not said, so that layers can be laid over each other.

// fileWords are the words at the top of a file.
type fileWords struct {
	Version             *count `json:"version" min:"1" max:"1" example:"1" doc:"The version of this file's form, always 1."`
	UnknownDependencies *word  `json:"unknown_dependencies,omitempty" enum:"default,refuse" default:"default" example:"default" doc:"What answers for a dependency that no rule matches: the defaults, or a 404."`
	MaxUnknown          *count `json:"max_unknown,omitempty" unit:"dependencies" min:"1" max:"1000000" default:"1000" example:"1000" doc:"How many dependencies that no rule matches get a bucket of their own; the rest share one."`
	Defaults            *rule  `json:"defaults,omitempty" default:"{preset: standard}" example:"{preset: standard}" doc:"What holds for rules that name no preset, and for dependencies that no rule matches."`
	Presets             *rules `json:"presets,omitempty" example:"{patient: {preset: standard, max_attempts: 6}}" doc:"Your own presets beside the built-in ones, by name. A preset may name another one that it is written over."`
	Dependencies        *rules `json:"dependencies,omitempty" doc:"The rules, by the exact name of a dependency or by a pattern in which * stands for any text. The exact name wins, then the pattern with the longest literal beginning. None can be named default: that is what answers call the policy of a dependency that no rule matches."`
}

// ruleWords are the words of a rule, a preset and the defaults.
type ruleWords struct {
	Description *text `json:"description,omitempty" example:"card payments" doc:"What this dependency is, in your own words."`
	Owner       *text `json:"owner,omitempty" example:"team-payments" doc:"Who answers for this dependency."`
	judgedWords
	Headroom  *number    `json:"headroom,omitempty" unit:"times the normal load" min:"1" max:"1000" decimals:"6" example:"1.3" doc:"What the dependency can serve, as a multiple of its normal load. It decides nothing: decider check warns where retries may ask for more."`
	Mode      *word      `json:"mode,omitempty" enum:"enforce,shadow" default:"enforce" example:"enforce" doc:"Whether what the fleet's state refuses (budget, breaker, cool-down) is refused. shadow: it is granted, and counted as what would have been refused; an operator's pause holds all the same."`
	Candidate *candidate `json:"candidate,omitempty" example:"{budget: {ratio: 5%}}" doc:"A second rule, written over this one, that is judged beside it on the same attempts with a budget of its own. Nobody is told its answers; what it would have answered differently is counted. A rule's own replaces that of the defaults."`
}

// judgedWords are the words that a decision depends on. A candidate has no
// others.
type judgedWords struct {
	Preset           *text            `json:"preset,omitempty" example:"standard" doc:"The preset that this is written over; a rule that names one ignores the defaults."`
	MaxAttempts      *count           `json:"max_attempts,omitempty" unit:"calls" min:"1" max:"2147483648" default:"4" example:"4" doc:"The most calls, the first one included; 1 never retries."`
	Backoff          *backoffWords    `json:"backoff,omitempty" doc:"How long to wait where the server says nothing."`
	RetryAfter       *retryAfterWords `json:"retry_after,omitempty" doc:"How the server's own wait is honoured."`
	Retryable        *retryableWords  `json:"retryable,omitempty" doc:"Which failures are retried: edits of the built-in classes."`
	Repeat           *repeat          `json:"repeat,omitempty" default:"idempotent" example:"idempotent" doc:"Which methods may repeat a call that may have been acted on and carries no idempotency key: idempotent, any, or a list of methods."`
	Unprocessed      *failures        `json:"unprocessed,omitempty" default:"[]" example:"[429]" doc:"Failures that this dependency answers before it acts, so that any method may repeat them."`
	MinAttempt       *millis          `json:"min_attempt,omitempty" min:"0" max:"596h31m23.647s" default:"0s" example:"200ms" doc:"The least time in which another attempt can succeed; no retry starts with less left of the deadline."`
	RetryLayer       *names           `json:"retry_layer,omitempty" default:"[]" example:"[checkout]" doc:"The callers that retry; all others fail fast. An empty list lets all retry."`
	OnlyFirstInbound *truth           `json:"only_first_inbound,omitempty" default:"false" example:"true" doc:"Whether to fail fast while serving a request that is itself a retry."`
	Budget           *budgetWords     `json:"budget,omitempty" doc:"The retry allowance that all callers of the dependency share, a token bucket; off asks for none."`
	Breaker          *breakerWords    `json:"breaker,omitempty" doc:"The breaker that all callers of the dependency share; off by default."`
	CoolDown         *word            `json:"cool_down,omitempty" enum:"auto,fleet,caller,off" off:"true" default:"auto" example:"auto" doc:"For whom a wait that the server gave one caller holds. auto: a throttle's for the same caller, every other for the fleet."`
	OnStoreFailure   *word            `json:"on_store_failure,omitempty" enum:"local,give_up,allow" default:"local" example:"local" doc:"What answers while the fleet's state is out of reach: a local bucket, a give-up, or a retry."`
}

// waitWords are the words of one wait.
type waitWords struct {
	Strategy   *word   `json:"strategy,omitempty" enum:"full_jitter,equal_jitter,decorrelated_jitter,proportional_jitter,constant,linear,exponential,paced" default:"full_jitter" example:"full_jitter" doc:"How the wait grows and is spread. paced: the fleet's state hands out slots, rate of them a second."`
	Base       *millis `json:"base,omitempty" min:"0" max:"596h31m23.647s" default:"100ms" example:"100ms" doc:"The first retry's window; 0 waits nothing."`
	Cap        *millis `json:"cap,omitempty" min:"1ms" max:"596h31m23.647s" default:"1s" example:"1s" doc:"The longest window."`
	Multiplier *number `json:"multiplier,omitempty" unit:"times" min:"1" max:"1000" default:"2" example:"2" doc:"By what the window grows from retry to retry."`
	Min        *millis `json:"min,omitempty" min:"0" max:"596h31m23.647s" default:"0s" example:"0s" doc:"The shortest wait, whatever the strategy draws."`
	Jitter     *ratio  `json:"jitter,omitempty" min:"0%" max:"100%" default:"20%" example:"20%" doc:"The share of the window by which proportional_jitter moves it either way; no other strategy reads it."`
	Rate       *number `json:"rate,omitempty" unit:"retries per second" min:"0.001" max:"1000000" decimals:"3" example:"1900" doc:"How many slots a second paced hands to the whole fleet, none further than cap ahead of now or of the end of a cool-down; no other strategy reads it."`
}

type backoffWords struct {
	waitWords
	Throttle *waitWords `json:"throttle,omitempty" example:"{base: 1s}" doc:"Any of the words again, for throttles: 429, 529 and RESOURCE_EXHAUSTED."`
	Timeout  *waitWords `json:"timeout,omitempty" example:"{base: 200ms}" doc:"Any of the words again, for timeouts: timeout, connect_timeout, 504, 524 and DEADLINE_EXCEEDED."`
}

type retryAfterWords struct {
	Max     *millis  `json:"max,omitempty" min:"1ms" max:"596h31m23.647s" default:"60s" example:"60s" doc:"The longest wait that is honoured; where the server asks for more, the answer is to give up."`
	Spread  *ratio   `json:"spread,omitempty" min:"0%" default:"10%" example:"10%" doc:"The share of the wait by which a crowd that was given one is spread above it."`
	Headers *headers `json:"headers,omitempty" default:"[retry-after]" example:"[retry-after]" doc:"The response headers that are read, in this order; the first readable wait serves."`
}

type retryableWords struct {
	Only           *failures `json:"only,omitempty" apart:"true" example:"[429, 503, timeout]" doc:"Exactly these are retried; what the layers below say is forgotten."`
	Add            *failures `json:"add,omitempty" default:"[]" example:"[409]" doc:"These are retried too, by whoever may repeat the call."`
	Remove         *failures `json:"remove,omitempty" default:"[]" example:"[500]" doc:"These are not retried."`
	WithRetryAfter *failures `json:"with_retry_after,omitempty" default:"[413]" example:"[413]" doc:"These are retried only where the server gave a readable wait."`
}

type budgetWords struct {
	Off             *truth     `json:"-"`
	Ratio           *ratio     `json:"ratio,omitempty" min:"0%" max:"100%" default:"10%" example:"10%" doc:"What each deposit adds, as a share of one token."`
	RatioMax        *ratio     `json:"ratio_max,omitempty" min:"0%" max:"100%" default:"0%" example:"25%" doc:"What each deposit adds at most, where the last ten seconds' retries are seen to help; 0 keeps to ratio. What is above ratio never pays for throttles and timeouts."`
	Capacity        *number    `json:"capacity,omitempty" unit:"tokens" min:"0.000001" max:"1000000" decimals:"6" default:"10" example:"10" doc:"How many tokens the bucket holds at least."`
	CapacitySeconds *number    `json:"capacity_seconds,omitempty" unit:"seconds" min:"0" max:"3600" decimals:"3" default:"1" example:"1" doc:"The bucket holds what so many seconds of deposits bring, where that is more; 0 switches it off."`
	MinPerSecond    *number    `json:"min_per_second,omitempty" unit:"tokens per second" min:"0" max:"1000000" rounds:"9" default:"0.1" example:"0.1" doc:"Tokens a second that come by time alone."`
	DepositOn       *word      `json:"deposit_on,omitempty" enum:"success,request" default:"success" example:"success" doc:"What deposits: each original call that succeeds, or each original call."`
	Cost            *costWords `json:"cost,omitempty" doc:"Tokens that a retry costs, by the kind of the failure."`
	CallerShare     *ratio     `json:"caller_share,omitempty" min:"0%" max:"100%" default:"0%" example:"0%" doc:"What a caller's own success adds to its own share of the bucket, so that one caller cannot starve the rest; 0 is off."`
}

type costWords struct {
	Default  *number `json:"default,omitempty" unit:"tokens" min:"0.000001" max:"1000" decimals:"6" default:"1" example:"1" doc:"Every failure whose kind is not named here."`
	Throttle *number `json:"throttle,omitempty" unit:"tokens" min:"0.000001" max:"1000" decimals:"6" example:"0.5" doc:"Throttles: 429, 529 and RESOURCE_EXHAUSTED."`
	Timeout  *number `json:"timeout,omitempty" unit:"tokens" min:"0.000001" max:"1000" decimals:"6" example:"2" doc:"Timeouts: timeout, connect_timeout, 504, 524 and DEADLINE_EXCEEDED."`
}

type breakerWords struct {
	Mode         *word   `json:"mode,omitempty" enum:"off,retries,all" off:"true" default:"off" example:"retries" doc:"What an open breaker stops: nothing, retries, or first attempts too."`
	FailureRatio *ratio  `json:"failure_ratio,omitempty" min:"0.0001%" max:"100%" default:"50%" example:"50%" doc:"The share of attempts that must fail to open it."`
	MinAttempts  *count  `json:"min_attempts,omitempty" unit:"attempts" min:"1" max:"1000" default:"20" example:"20" doc:"How many attempts the window must hold before it can open."`
	Window       *millis `json:"window,omitempty" min:"1s" max:"1h" default:"10s" example:"10s" doc:"The time over which attempts are counted."`
	OpenFor      *millis `json:"open_for,omitempty" min:"1ms" max:"1h" default:"5s" example:"5s" doc:"How long it stays open before probes are let through."`
	Probes       *count  `json:"probes,omitempty" unit:"attempts" min:"1" max:"100" default:"1" example:"1" doc:"How many probes are let through at once when it is half open."`
}

// switchable is a group of words that can be off as a whole.
type switchable interface{ turn(off bool) }

func (b *budgetWords) turn(off bool) { b.Off = ptr(truth(off)) }

func (b *breakerWords) turn(off bool) {
	if off {
		b.Mode = ptr(word("off"))
	}
}

func ptr[T any](v T) *T { return &v }
