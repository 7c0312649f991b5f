package monitoring

import "fmt"

// sections are the dashboard from top to bottom: is all well, what is decided,
// for whom, and how decider itself fares.
func sections(dependencies []Dependency) []section {
	return []section{
		{"The fleet at a glance", glance()},
		{"What is decided", decisions()},
		{"Dependencies", append([]panel{overview()}, perDependency(dependencies)...)},
		{"The store", store()},
		{"Policies", policies()},
		{"The service", service()},
	}
}

// total sums a rate over everything that is chosen.
func total(metric string, by string, selectors ...string) string {
	expr := "rate(" + metric + join(selectors...) + "[" + rate + "])"
	if by == "" {
		return "sum(" + expr + ")"
	}
	return sumBy(by, expr)
}

const (
	decided   = "decider_decisions_total"
	requested = "http_server_request_duration_seconds"
)

func share(part, whole string) string { return part + "\n/ (" + whole + " > 0)" }

// asked are the retries that only the fleet's state could refuse.
func asked(by, chosen string) string {
	return sumBy(by, "rate("+decided+join(chosen, `decision="retry"`)+"["+rate+"]) or rate("+decided+join(chosen, refused)+"["+rate+"])")
}

func glance() []panel {
	seconds := fmt.Sprintf("histogram_quantile(0.99, sum by (le) (rate(%s_bucket{%s,http_route=\"/v1/decide\"}[%s])))", requested, chosenFleet, rate)
	return []panel{
		stat("Deciders", "none", "Those that Prometheus reaches.", "count(decider_build_info{"+chosenFleet+"})", redBelow(1)...),
		stat("Policies in force", "none", "More than one: replicas decide by different files.", "count(count by (config) (decider_policies_info{"+chosenFleet+"}))", worseFrom(2, 3)...),
		stat("Store", "percentunit", "Share of the deciders that reach it. No data: their state is in their memory.", "avg(decider_store_up{"+chosenFleet+"})", redBelow(1)...),
		stat("Decisions a second", "reqps", "", total(decided, "", chosenFleet)),
		stat("Retries refused", "percentunit", "Of the retries that would have been made, those that the fleet's state refused.",
			share(total(decided, "", chosenFleet, refused), asked("", chosenFleet)), worseFrom(0.1, 0.5)...),
		stat("p99 of decide", "s", "Clients give up waiting after 50 to 100 ms.", seconds, worseFrom(0.02, 0.05)...),
	}
}

func decisions() []panel {
	with, without := load("dependency", chosen, rate, "decider_retries_granted_total"), load("dependency", chosen, rate, "decider_retries_asked_total")
	failed := ratio("dependency", failures(chosen, rate), calls(chosen, rate))
	return []panel{
		stacked(graph(12, "Decisions", "reqps", "", show{total(decided, "decision", chosen), "{{decision}}"})),
		stacked(graph(12, "Given up, by reason", "reqps", "", show{total(decided, "reason", chosen, `decision="give_up"`), "{{reason}}"})),
		graph(12, "Load by retries", "short", "All that a dependency gets, as a multiple of the first attempts. The budget bounds it. Too high where clients report no outcomes.", show{with, "{{dependency}}"}),
		graph(12, "Load if clients retried by themselves", "short", "An estimate, and mostly a low one: a caller that is refused does not ask again. What decider keeps away is the difference.", show{without, "{{dependency}}"}),
		graph(12, "Calls that fail in the end", "percentunit", "Given up, or reported as final failures, of all original calls.", show{failed, "{{dependency}}"}),
		graph(12, "Budget left", "percentunit", "Of what it holds at most. Empty: retries are refused.",
			show{budgetLeft, "{{dependency}}"}),
		graph(12, "Cool-downs", "s", "How long retries still wait because a server asked for it.",
			show{"max by (dependency) (decider_cool_down_seconds{" + chosen + "})", "{{dependency}}"}),
		graph(12, "Breakers and overrides", "short", "1: so it is.",
			show{"max by (dependency, state) (decider_breaker_state{" + chosen + ",state!=\"closed\"})", "{{dependency}} {{state}}"},
			show{"max by (dependency, mode) (decider_override{" + chosen + "})", "{{dependency}} {{mode}}"}),
	}
}

// budgetLeft: every replica tells of the fleet's one budget, so that it is no sum.
const budgetLeft = "max by (dependency) (decider_budget_tokens{" + chosen + "})\n/ max by (dependency) (decider_budget_capacity_tokens{" + chosen + "})"

func overview() panel {
	granted := total("decider_retries_granted_total", "dependency", chosen)
	no := total(decided, "dependency", chosen, refused)
	return table("All dependencies", "_other: all that the policy file does not name exactly.",
		column{"Calls/s", "reqps", total("decider_first_attempts_total", "dependency", chosen)},
		column{"Retries granted/s", "reqps", granted},
		column{"Retries refused", "percentunit", share(no, asked("dependency", chosen))},
		column{"Calls that fail", "percentunit", ratio("dependency", failures(chosen, rate), calls(chosen, rate))},
		column{"Load", "short", load("dependency", chosen, rate, "decider_retries_granted_total")},
		column{"Budget left", "percentunit", budgetLeft},
		column{"Malformed Retry-After/s", "reqps", total("decider_retry_after_malformed_total", "dependency", chosen)},
	)
}

// perDependency has a panel for each, or one that Grafana repeats for those
// that are chosen.
func perDependency(dependencies []Dependency) []panel {
	if len(dependencies) == 0 {
		p := dependency(Dependency{Name: "$dependency"}, `dependency="$dependency"`)
		p.Repeat, p.RepeatDirection, p.MaxPerRow, p.GridPos.W = "dependency", "h", 3, 24
		return []panel{p}
	}
	var list []panel
	for _, d := range append(dependencies[:len(dependencies):len(dependencies)], Dependency{Name: Other, Description: "All that the policy file does not name exactly."}) {
		list = append(list, dependency(d, `dependency="`+d.Name+`"`))
	}
	return list
}

// dependency shows what became of each failed call, retry or why not.
func dependency(d Dependency, selector string) panel {
	p := graph(8, "", "reqps", "", show{total(decided, "reason", chosenFleet, selector), "{{reason}}"},
		show{sumBy("outcome", "rate(decider_outcomes_total"+join(chosenFleet, selector, `outcome="final_failure"`)+"["+rate+"])"), "never asked"})
	p.Title, p.Description = named(d)
	return stacked(p)
}

func store() []panel {
	return []panel{
		graph(8, "Time of a call to the store, p99", "s", "Bounded by --store-timeout.",
			show{"histogram_quantile(0.99, " + sumBy("le, result", "rate(decider_store_call_duration_seconds_bucket{"+chosenFleet+"}["+rate+"])") + ")", "{{result}}"}),
		graph(8, "Reach of the store", "short", "1: in reach. 0: local rules answer.", show{"decider_store_up{" + chosenFleet + "}", "{{instance}}"}),
		graph(8, "Calls to the store", "reqps", "Many decisions share a call.",
			show{total("decider_store_operations_total", "", chosenFleet), "decisions and reports"}, show{total("decider_store_calls_total", "", chosenFleet), "calls"}),
		graph(8, "Without the store", "reqps", "",
			show{total("decider_store_errors_total", "", chosenFleet), "not answered"}, show{total("decider_store_degraded_operations_total", "", chosenFleet), "answered by a local rule"}),
		graph(8, "Degraded decisions", "reqps", "", show{total("decider_degraded_decisions_total", "dependency", chosen), "{{dependency}}"}),
		graph(8, "Connections to the store", "short", "", show{"decider_store_connections{" + chosenFleet + "}", "{{instance}}"}),
		graph(8, "Replicas that know each other", "short", "", show{"decider_replicas{" + chosenFleet + "}", "{{instance}}"}),
	}
}

func policies() []panel {
	return []panel{
		graph(8, "Last reload", "short", "1: taken. 0: refused; the policies before it stay in force.", show{"decider_policies_last_reload_successful{" + chosenFleet + "}", "{{instance}}"}),
		graph(8, "Age of the policies in force", "s", "", show{"time() - decider_policies_applied_timestamp_seconds{" + chosenFleet + "}", "{{instance}}"}),
		graph(8, "Warnings about the policies", "short", "decider check names them.", show{"max by (job) (decider_policies_warnings{" + chosenFleet + "})", "{{job}}"}),
		graph(12, "Shadow: retries granted that would have been refused", "reqps", "", show{total("decider_shadow_refusals_total", "dependency, reason", chosen), "{{dependency}}: {{reason}}"}),
		graph(12, "Candidates: retries that only one would grant", "reqps", "saved: the candidate would refuse it. added: it would grant it.", show{total("decider_candidate_retries_total", "dependency, effect", chosen), "{{dependency}}: {{effect}}"}),
	}
}

func service() []panel {
	// Not every route: a stream is open for as long as somebody looks at it.
	quantile := func(q string) string {
		return fmt.Sprintf("histogram_quantile(%s, sum by (le, http_route) (rate(%s_bucket{%s,http_route=~\"/v1/decide(|/batch)\"}[%s])))", q, requested, chosenFleet, rate)
	}
	return []panel{
		graph(8, "Requests by status", "reqps", "", show{total(requested+"_count", "http_response_status_code", chosenFleet), "{{http_response_status_code}}"}),
		graph(8, "Time to answer, p99", "s", "Of decide and its batches.", show{quantile("0.99"), "{{http_route}}"}),
		graph(8, "Requests refused", "reqps", "Not let in, or over a limit.", show{total("decider_requests_refused_total", "why", chosenFleet), "{{why}}"}),
		graph(8, "Time to answer, median", "s", "Of decide and its batches.", show{quantile("0.5"), "{{http_route}}"}),
		graph(8, "CPU", "short", "Cores in use.", show{"rate(process_cpu_seconds_total{" + chosenFleet + "}[" + rate + "])", "{{instance}}"}),
		graph(8, "Memory", "bytes", "", show{"process_resident_memory_bytes{" + chosenFleet + "}", "{{instance}}"}),
		graph(8, "Goroutines and open files", "short", "", show{"go_goroutines{" + chosenFleet + "}", "{{instance}} goroutines"}, show{"process_open_fds{" + chosenFleet + "}", "{{instance}} files"}),
	}
}
