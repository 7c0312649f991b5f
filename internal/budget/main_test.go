package budget

import (
	"testing"

	"go.uber.org/goleak"
)

// No test, and so nothing of the package, leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
