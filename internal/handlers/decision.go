package handlers

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/retrydecider/decider/internal/decide"
)

// appendDecision writes a Decision, its members in the contract's order.
func appendDecision(b []byte, d *decide.Decision) []byte {
	b = append(b, '{')
	return append(appendDecisionMembers(b, d), '}')
}

func appendDecisionMembers(b []byte, d *decide.Decision) []byte {
	b = append(b, `"decision":"`...)
	b = append(b, d.Word()...)
	b = append(b, `","delay_ms":`...)
	b = strconv.AppendInt(b, d.Delay, 10)
	b = append(b, `,"reason":"`...)
	b = append(b, d.Reason.String()...)
	b = append(b, `","message":`...)
	b = appendString(b, d.Message())
	b = append(b, `,"decision_id":`...)
	b = appendString(b, d.DecisionID)
	b = append(b, `,"dependency":`...)
	b = appendString(b, d.Dependency)
	b = append(b, `,"policy":`...)
	b = appendString(b, d.Policy)
	if d.Retry() {
		b = append(b, `,"next_attempt":`...)
		b = strconv.AppendInt(b, d.NextAttempt, 10)
	}
	b = appendMillis(b, `,"remaining_ms":`, d.Remaining)
	b = appendMillis(b, `,"server_delay_ms":`, d.ServerDelay)
	b = append(b, `,"retry_after":"`...)
	b = append(b, d.ServerDelayUse.String()...)
	b = append(b, '"')
	b = appendMillis(b, `,"ask_again_in_ms":`, d.AskAgain)
	b = appendBudget(b, &d.Budget)
	b = append(b, `,"breaker":"`...)
	b = append(b, d.Breaker.String()...)
	b = append(b, `","degraded":`...)
	b = strconv.AppendBool(b, d.Degraded)
	b = appendHints(b, d.Hints)
	if !d.ShadowReason.Retry() {
		b = append(b, `,"shadow_reason":"`...)
		b = append(append(b, d.ShadowReason.String()...), '"')
	}
	return b
}

// appendMillis writes a member that may be absent.
func appendMillis(b []byte, member string, ms decide.Millis) []byte {
	if !ms.Present {
		return b
	}
	return strconv.AppendInt(append(b, member...), ms.Value, 10)
}

func appendBudget(b []byte, budget *decide.Budget) []byte {
	if !budget.Asked {
		return b
	}
	b = decide.AppendMicro(append(b, `,"budget":{"tokens":`...), budget.Tokens)
	b = decide.AppendMicro(append(b, `,"capacity":`...), budget.Capacity)
	b = decide.AppendMicro(append(b, `,"cost":`...), budget.Cost)
	b = append(b, `,"source":"`...)
	b = append(b, budget.Source()...)
	return append(b, `"}`...)
}

func appendHints(b []byte, hints decide.Hints) []byte {
	b = append(b, `,"hints":[`...)
	if hints != 0 {
		for i, name := range hints.Names() {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, '"'), name...), '"')
		}
	}
	return append(b, ']')
}

// appendExplanation writes a Decision with the questions that led to it.
func appendExplanation(b []byte, d *decide.Decision, t *decide.Trace) []byte {
	b = appendDecisionMembers(append(b, '{'), d)
	b = append(b, `,"trace":[`...)
	for i, step := range t.Steps {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"step":`...), int64(step.Step), 10)
		b = appendString(append(b, `,"question":`...), step.Question)
		b = appendString(append(b, `,"answer":`...), step.Answer)
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// appendString writes a JSON string.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // its error is invalid UTF-8, which it has replaced
	return b
}
