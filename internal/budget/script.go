package budget

import (
	"context"
	_ "embed"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed fleet.lua
var fleetSource string

var (
	fleetLua    = withConstants(fleetSource)
	fleetScript = redis.NewScript(fleetLua)

	constantLine = regexp.MustCompile(`(?m)^local ([A-Z_, ]+) = ([0-9, ]+)$`)
	capitals     = regexp.MustCompile(`\b[A-Z_]+\b`)
)

// withConstants puts the script's constants in where they are used. The script's
// functions are made anew by each call, and each constant that one captures is
// searched for: as locals they took a quarter of the server's time.
func withConstants(script string) string {
	values := map[string]string{}
	for _, line := range constantLine.FindAllStringSubmatch(script, -1) {
		numbers := strings.Split(line[2], ", ")
		for i, name := range strings.Split(line[1], ", ") {
			values[name] = numbers[i]
		}
	}
	return capitals.ReplaceAllStringFunc(constantLine.ReplaceAllString(script, ""), func(name string) string {
		if number, ok := values[name]; ok {
			return number
		}
		return name
	})
}

// processor sends a command, which keeps its error.
type processor func(context.Context, redis.Cmder) error

// evaluate runs the script by its hash, and whole where Redis has forgotten it:
// that reply alone proves that nothing ran. SCRIPT LOAD, which proxies forbid,
// is not needed.
func evaluate(ctx context.Context, process processor, calls ...*call) ([]any, error) {
	cmd := byHash(ctx, calls...)
	err := process(ctx, cmd)
	if isUnknown(err) {
		cmd = byText(ctx, calls...)
		err = process(ctx, cmd)
	}
	if err != nil {
		return nil, err // the command may still be under way, and is not looked at
	}
	return cmd.Result()
}

func byHash(ctx context.Context, calls ...*call) *once {
	return newEval(ctx, "evalsha", fleetScript.Hash(), calls)
}

func byText(ctx context.Context, calls ...*call) *once { return newEval(ctx, "eval", fleetLua, calls) }

func isUnknown(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

func newEval(ctx context.Context, command, script string, calls []*call) *once {
	keys := 0
	for _, c := range calls {
		keys += len(c.keys)
	}
	args := make([]any, 0, 3+keys+len(calls))
	args = append(args, command, script, keys)
	for _, c := range calls {
		args = append(args, c.keys...)
	}
	for _, c := range calls {
		args = append(args, c.text)
	}
	cmd := &once{redis.NewSliceCmd(ctx, args...)}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// once is a command that the client never sends again by itself: the cluster
// client otherwise repeats one that timed out inside its loop for redirects.
type once struct{ *redis.SliceCmd }

// NoRetry tells the client so.
func (*once) NoRetry() bool { return true }
