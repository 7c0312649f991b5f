package policy

import (
	"fmt"
	"strings"
	"testing"
)

// TestPresetsInPlainWords holds what is told of every preset, and of a rule that
// says everything that no preset does.
func TestPresetsInPlainWords(t *testing.T) {
	var text strings.Builder
	tell := func(name string, sentences []string) {
		fmt.Fprintf(&text, "%s\n", name)
		for _, sentence := range sentences {
			if !strings.HasSuffix(sentence, ".") {
				t.Errorf("%s: %q is no sentence", name, sentence)
			}
			fmt.Fprintf(&text, "  %s\n", sentence)
		}
	}
	for _, p := range BuiltInPresets() {
		tell(p.Name, PlainWords(p.Policy))
		if len(p.Sources) == 0 || p.Description == "" {
			t.Errorf("%s has no source", p.Name)
		}
	}
	if len(publishedOf) != len(Presets()) {
		t.Error("something is published of a preset that there is not")
	}
	tell("everything", PlainWords(rule1(t, `{max_attempts: 6, min_attempt: 200ms, retry_layer: [checkout, cart], only_first_inbound: true, repeat: [GET, HEAD],
  backoff: {strategy: linear, throttle: {strategy: decorrelated_jitter}, timeout: {strategy: constant, base: 2s}}, retry_after: {headers: [x-should-retry]},
  budget: {deposit_on: request, cost: {default: 0.5, timeout: 2}}, breaker: {mode: all}, cool_down: off, on_store_failure: allow}`)))
	tell("little", PlainWords(rule1(t, "{budget: off, breaker: {mode: retries}, backoff: {strategy: exponential, min: 50ms}, cool_down: caller, on_store_failure: give_up}")))
	tell("fleet", PlainWords(rule1(t, "{cool_down: fleet, backoff: {strategy: proportional_jitter}}")))
	tell("paced", PlainWords(rule1(t, "{backoff: {strategy: paced, rate: 50, cap: 2s}, budget: {ratio_max: 50%}}")))
	golden(t, "testdata/plainwords.txt", []byte(text.String()))
}

func TestFindPreset(t *testing.T) {
	t.Parallel()
	if p, err := FindPreset("grpc"); err != nil || p.Name != "grpc" || p.Policy.Preset != "grpc" || len(p.Cannot) == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := FindPreset("stndard"); err == nil || !strings.Contains(err.Error(), `did you mean "standard"?`) {
		t.Error(err)
	}
}
