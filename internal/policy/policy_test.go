package policy

import "testing"

func TestStandardHoldsWithoutAFile(t *testing.T) {
	t.Parallel()
	p, bucket, err := Standard().Find("payments")
	if err != nil || bucket != "payments" || p.Name != DefaultName || p.Preset != "standard" || p.MaxAttempts != 4 {
		t.Errorf("Find = %+v, %q, %v", p, bucket, err)
	}
}
