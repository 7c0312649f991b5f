package monitoring

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// RulesConfig is what the rules depend on.
type RulesConfig struct {
	// Dependencies have an alert each; without any, one alert serves all.
	Dependencies []Dependency
	// Objective is the share of calls that should not fail in the end, in (0, 1).
	Objective float64
	// Runbook is the address of the page that the alerts point into.
	Runbook string
}

// Group is a group of rules, as Prometheus reads it.
type Group struct {
	Name  string `yaml:"name"`
	Rules []Rule `yaml:"rules"`
}

// Rule is a recording rule or an alert.
type Rule struct {
	Record      string       `yaml:"record,omitempty"`
	Alert       string       `yaml:"alert,omitempty"`
	Expr        string       `yaml:"expr"`
	For         string       `yaml:"for,omitempty"`
	Labels      *labels      `yaml:"labels,omitempty"`
	Annotations *annotations `yaml:"annotations,omitempty"`
}

type labels struct {
	Severity string `yaml:"severity"`
	// Dependency tells the alerts of one name apart, which a checker of rules
	// wants before any of them has fired.
	Dependency string `yaml:"dependency,omitempty"`
	Owner      string `yaml:"owner,omitempty"`
}

type annotations struct {
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
	RunbookURL  string `yaml:"runbook_url"`
}

// Severities: somebody is woken, somebody looks during the day, it is good to know.
const (
	critical = "critical"
	warning  = "warning"
	info     = "info"
)

// fleet and each are what the series are told apart by. Both keep what tells
// one fleet of deciders from another that the same Prometheus watches.
const (
	fleet = "job, namespace"
	each  = "job, namespace, dependency"
)

// onlyDecider keeps, of metrics that other programs have too, decider's.
const onlyDecider = " * on (job, namespace, instance) group_left () decider_build_info"

// windows are those of the burn rates, shortest first. A budget is lost at
// factor times the speed that uses it up in 30 days: page at 2 % of it in an
// hour, or 5 % in six (the multi-window alert of the SRE Workbook, chapter 5).
// The short window ends the alert soon after the burning does.
var (
	windows = []string{"5m", "30m", "1h", "6h"}
	burns   = []struct {
		factor      float64
		long, short string
	}{{14.4, "1h", "5m"}, {6, "6h", "30m"}}
)

const rulesHead = `# Recording rules and alerts for decider, written by "decider gen alerts": change
# internal/monitoring and run "make generate", or give it your policy file for an
# alert per dependency: decider gen alerts --policies policies.yaml > rules.yaml
`

// Rules are the rule file.
func Rules(c RulesConfig) ([]byte, error) {
	file := struct {
		Groups []Group `yaml:"groups"`
	}{[]Group{
		{"decider.load", recordings()},
		{"decider.service", c.service()},
		{"decider.dependencies", c.dependencies()},
	}}
	text, err := yaml.MarshalWithOptions(file, yaml.UseLiteralStyleIfMultiline(true), yaml.IndentSequence(true))
	return append([]byte(rulesHead), text...), err
}

// recordings are what the alerts, and a dashboard of one's own, build on.
func recordings() []Rule {
	list := []Rule{
		{Record: "decider:retries_granted:rate5m", Expr: sumBy(each, "rate(decider_retries_granted_total[5m])")},
		{Record: "decider:retries_refused:rate5m", Expr: sumBy(each, "rate(decider_decisions_total"+join(refused)+"[5m])")},
		{Record: "decider:retries_refused:ratio_rate5m", Expr: "decider:retries_refused:rate5m\n" +
			"/ (decider:retries_granted:rate5m + decider:retries_refused:rate5m > 0)"},
		{Record: "decider:decide_duration_seconds:p99_rate5m", Expr: "histogram_quantile(0.99, " + sumBy(fleet+", le",
			`rate(http_server_request_duration_seconds_bucket{http_route="/v1/decide"}[5m])`+onlyDecider) + ")"},
		{Record: "decider:http_requests:rate5m", Expr: sumBy(fleet+", http_route, http_response_status_code",
			"rate(http_server_request_duration_seconds_count[5m])"+onlyDecider)},
	}
	for _, w := range windows {
		list = append(list,
			Rule{Record: "decider:calls:rate" + w, Expr: sumBy(each, calls("", w))},
			Rule{Record: "decider:calls_failed:rate" + w, Expr: sumBy(each, failures("", w)) + "\nor decider:calls:rate" + w + " * 0"},
			Rule{Record: "decider:calls_failed:ratio_rate" + w, Expr: "decider:calls_failed:rate" + w + " / (decider:calls:rate" + w + " > 0)"})
	}
	// What a dependency gets, and what it would get if clients retried by themselves.
	return append(list,
		Rule{Record: "decider:load:ratio_rate5m", Expr: load(each, "", "5m", "decider_retries_granted_total")},
		Rule{Record: "decider:load_without:ratio_rate5m", Expr: load(each, "", "5m", "decider_retries_asked_total")})
}

// alert makes one; its anchor in the runbook is its name in lower case.
func (c RulesConfig) alert(name, severity, wait, expr, summary, description string) Rule {
	return Rule{Alert: name, Expr: expr, For: wait, Labels: &labels{Severity: severity},
		Annotations: &annotations{summary, description, c.Runbook + "#" + strings.ToLower(name)}}
}

// service are the alerts about decider itself.
func (c RulesConfig) service() []Rule {
	return []Rule{
		c.alert("DeciderAbsent", critical, "5m", "absent(decider_build_info)",
			"no decider is scraped", "Clients decide by their own local rules, and nobody sees what they decide."),
		c.alert("DeciderDegraded", warning, "1m", "count by ("+fleet+") (decider_store_up == 0)",
			"{{ $value }} decider(s) cannot reach the store", "They answer by local budgets; cool-downs, breakers and overrides of the fleet do not hold."),
		c.alert("DeciderDegradedForLong", critical, "15m", "count by ("+fleet+") (decider_store_up == 0)",
			"{{ $value }} decider(s) have been without the store for 15 minutes", "Budgets are split by the last known number of replicas, which gets wrong as the fleet changes."),
		c.alert("DeciderSlow", warning, "5m", "decider:decide_duration_seconds:p99_rate5m > 0.05",
			"1 in 100 decisions takes {{ $value | humanizeDuration }}", "Clients wait 50 to 100 ms for an answer and then decide by themselves."),
		c.alert("DeciderErrors", critical, "5m", "sum by ("+fleet+", http_route) (decider:http_requests:rate5m"+join(`http_response_status_code=~"5..",http_response_status_code!="503"`)+") > 0",
			"decider answers {{ $labels.http_route }} with errors of its own", "No request should give a 500: this is a bug, or a broken machine."),
		// A burst between two scrapes is within the window for less than 5m: no longer wait.
		c.alert("DeciderOverloaded", warning, "1m", "sum by ("+fleet+") (rate(decider_requests_refused_total{why=\"overloaded\"}[5m])) > 0",
			"decider turns {{ $value | humanize }} requests a second away", "More are asked at once than --max-concurrent; those that are turned away decide by their local rules."),
		c.alert("DeciderIdentityFileRefused", warning, "1m", "count by ("+fleet+") (decider_identity_files_refused > 0)",
			"{{ $value }} decider(s) have refused an auth file or a certificate", "What was in force before stays in force: a key that was taken out of the file still opens the door."),
		c.alert("DeciderReloadFailed", warning, "1m", "count by ("+fleet+") (decider_policies_last_reload_successful == 0)",
			"{{ $value }} decider(s) have refused the policy file", "The policies before it stay in force. A decider that restarts with this file does not start."),
		c.alert("DeciderConfigDrift", warning, "10m", "count by ("+fleet+") (count by ("+fleet+", config) (decider_policies_info)) > 1",
			"the deciders hold {{ $value }} different policies", "Which rule a call gets depends on the replica that it asks, and replicas disagree about one budget's size."),
	}
}

// dependencies are the alerts about what the fleet calls.
func (c RulesConfig) dependencies() []Rule {
	exhausted := sumBy(each, `rate(decider_decisions_total{reason="budget_exhausted"}[5m])`)
	list := []Rule{
		c.alert("DeciderBudgetExhausted", warning, "5m",
			exhausted+" > 0.02\nand "+exhausted+"\n  > 0.1 * (decider:retries_granted:rate5m + decider:retries_refused:rate5m)",
			"the retry budget of {{ $labels.dependency }} is spent", "{{ $value | humanize }} retries a second are refused: the dependency fails more than the budget is meant for."),
		c.alert("DeciderRetriesRefusedRising", warning, "5m",
			"decider:retries_refused:ratio_rate5m > 0.2\nand decider:retries_refused:rate5m > 0.02\nunless decider:retries_refused:ratio_rate5m\n  <= 2 * (decider:retries_refused:ratio_rate5m offset 1h)",
			"{{ $value | humanizePercentage }} of the retries to {{ $labels.dependency }} are refused", "That is more than twice as many as an hour ago."),
		c.alert("DeciderBreakerOpen", warning, "2m",
			"max by ("+each+") (decider_breaker_state{state=~\"open|half_open\"}) == 1\nor "+
				sumBy(each, `rate(decider_decisions_total{reason="breaker_open"}[5m])`)+" > 0",
			"a breaker for {{ $labels.dependency }} is open", "The fleet's, or one of the callers' own. Retries are refused until a probe succeeds."),
		c.alert("DeciderOverrideForgotten", info, "1h", "max by ("+each+", mode) (decider_override) == 1",
			"an operator's {{ $labels.mode }} holds for {{ $labels.dependency }} since an hour", "It ends by itself; until then the policy does not decide."),
		c.alert("DeciderRetryAfterMalformed", info, "15m",
			sumBy(each, "increase(decider_retry_after_malformed_total[30m])")+" > 5",
			"{{ $labels.dependency }} sends a Retry-After that nobody can read", "The policy's own waits serve instead of what the dependency asks for."),
	}
	if len(c.Dependencies) == 0 {
		return append(list, c.burn("", Dependency{}))
	}
	for _, d := range append(c.Dependencies[:len(c.Dependencies):len(c.Dependencies)], Dependency{Name: Other}) {
		list = append(list, c.burn(`dependency="`+d.Name+`"`, d))
	}
	return list
}

// plain keeps text from being taken for one of Prometheus's templates.
var plain = strings.NewReplacer("{{", `{{ "{{" }}`)

// burn is the alert on the calls of one dependency, or of each, that fail in
// the end. Where no successes are reported it cannot tell, and keeps quiet.
func (c RulesConfig) burn(selector string, d Dependency) Rule {
	within := join(selector)
	var pairs []string
	for _, b := range burns {
		limit := strconv.FormatFloat(b.factor*(1-c.Objective), 'g', 4, 64)
		pairs = append(pairs, fmt.Sprintf("decider:calls_failed:ratio_rate%s%s > %s\n  and decider:calls_failed:ratio_rate%s%s > %s",
			b.long, within, limit, b.short, within, limit))
	}
	reported := sumBy(each, "increase(decider_outcomes_total"+join(selector, `outcome=~".*_success"`)+"[6h])")
	description := "{{ $value | humanizePercentage }} of the calls failed in the end; the objective is that " +
		strconv.FormatFloat(100*c.Objective, 'g', 6, 64) + "% do not."
	if d.Description != "" {
		description = plain.Replace(strings.TrimSuffix(d.Description, ".")) + ". " + description
	}
	r := c.alert("DeciderCallsFailing", critical, "2m", "(\n  "+strings.Join(pairs, "\n  or ")+"\n)\nand "+reported+" > 0",
		"calls to {{ $labels.dependency }} fail", description)
	r.Labels.Dependency, r.Labels.Owner = d.Name, plain.Replace(d.Owner)
	return r
}
