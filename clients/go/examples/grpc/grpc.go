// Package grpc lets decider decide over unary gRPC calls.
//
// Switch gRPC's own retries off (grpc.WithDisableRetry), or they multiply with
// these: only transparent ones, of calls that no server has seen, remain.
package grpc

import (
	"context"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	decider "github.com/retrydecider/decider/clients/go"
)

// The metadata of gRPC A6: what the server says of a retry, and which attempt this is.
const (
	pushback = "grpc-retry-pushback-ms"
	previous = "grpc-previous-rpc-attempts"
)

// UnaryClientInterceptor asks after each failed attempt. dependency names what
// is called; idempotent says which methods ("/package.Service/Method") may be
// repeated though a server may have acted.
func UnaryClientInterceptor(client *decider.Client, dependency string, idempotent func(method string) bool) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := client.Admit(dependency); err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		a := decider.Attempt{Dependency: dependency, Method: "POST", Idempotent: new(idempotent(method))}
		for a.Number = 1; ; a.Number++ {
			var trailer metadata.MD
			err := invoke(withAttempt(ctx, a.Number), method, request, reply, conn, append(opts, grpc.Trailer(&trailer))...)
			if err == nil {
				client.Succeeded(dependency, a.Number)
				return nil
			}
			describe(&a, err, trailer)
			decision := client.Ask(ctx, a)
			if !decision.Retry || !wait(ctx, decision.Delay) {
				return err
			}
			a.PreviousDelay = decision.Delay
		}
	}
}

func withAttempt(ctx context.Context, number int) context.Context {
	if number == 1 {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, previous, strconv.Itoa(number-1))
}

// describe says how the attempt ended. A caller that left is told from a server
// that says so.
func describe(a *decider.Attempt, err error, trailer metadata.MD) {
	a.GRPCStatus, a.Headers = codeName(status.Code(err)), nil
	if values := trailer.Get(pushback); len(values) > 0 {
		a.Headers = map[string]string{pushback: strings.Join(values, ", ")}
	}
}

// wait is false where the call's context ends, or would end, first.
func wait(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// codeName is a code as the contract writes it, which is as the gRPC
// specification does: DeadlineExceeded is DEADLINE_EXCEEDED.
func codeName(c codes.Code) string {
	if c == codes.OK {
		return "OK"
	}
	if c == codes.Canceled {
		return "CANCELLED"
	}
	var b strings.Builder
	for i, letter := range c.String() {
		if letter >= 'A' && letter <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(letter)
	}
	name := strings.ToUpper(b.String())
	if strings.ContainsAny(name, "()") { // a code that is none
		return "UNKNOWN"
	}
	return name
}
