package budget

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// silent is what the Redis client has to say of servers that tests kill.
type silent struct{}

// Printf says nothing.
func (silent) Printf(context.Context, string, ...any) {}

// No test, and so nothing of the package, leaves a goroutine behind.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		endAll()
		os.Exit(code)
	}))
}
