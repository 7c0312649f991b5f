"""What the contract says in words, because OpenAPI 3.0 has none for it.

schemathesis takes a body for valid that the schema accepts. A body that breaks a
rule of the descriptions alone is mended here before it is sent, so that what is
held against decider is what the contract says as a whole. A body that is wrong by
the schema stays as it is.
"""

import schemathesis

ENDS = ("status", "outcome", "grpc_status")


def mend_attempt(attempt):
    """Exactly one of three members says how an attempt ended."""
    if not isinstance(attempt, dict):
        return
    given = [end for end in ENDS if end in attempt]
    for end in given[1:]:
        del attempt[end]
    if not given and "dependency" in attempt and "method" in attempt:
        attempt["status"] = 503
    headers = attempt.get("headers")
    if isinstance(headers, dict):  # no two names that differ by case alone
        seen = set()
        for name in list(headers):
            if name.lower() in seen:
                del headers[name]
            seen.add(name.lower())


def mend_report(report):
    """A dependency is in a report once."""
    if not isinstance(report, dict) or not isinstance(report.get("outcomes"), list):
        return
    seen, once = set(), []
    for outcome in report["outcomes"]:
        name = outcome.get("dependency") if isinstance(outcome, dict) else None
        if isinstance(name, str) and name in seen:
            continue
        seen.add(name if isinstance(name, str) else None)
        once.append(outcome)
    report["outcomes"] = once


@schemathesis.hook
def before_call(context, case, kwargs):
    call = context.operation.definition.raw.get("operationId")
    if call in ("decide", "explain"):
        mend_attempt(case.body)
    elif call == "decideBatch" and isinstance(case.body, dict) and isinstance(case.body.get("attempts"), list):
        for attempt in case.body["attempts"]:
            mend_attempt(attempt)
    elif call == "reportOutcomes":
        mend_report(case.body)
