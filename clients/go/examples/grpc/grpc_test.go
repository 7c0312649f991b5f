package grpc_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	gogrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrydecider/decider/clients/go/examples/grpc"
	"github.com/retrydecider/decider/clients/go/examples/internal/standin"
)

// server answers one code after the other, and then OK.
type server struct {
	grpc_health_v1.UnimplementedHealthServer
	codes    []codes.Code
	calls    atomic.Int32
	previous atomic.Value
}

func (s *server) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	n := int(s.calls.Add(1))
	if in, ok := metadata.FromIncomingContext(ctx); ok {
		s.previous.Store(in.Get("grpc-previous-rpc-attempts"))
	}
	if n <= len(s.codes) {
		_ = gogrpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "70"))
		return nil, status.Error(s.codes[n-1], "as the test says")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func dial(t *testing.T, s *server, interceptor gogrpc.UnaryClientInterceptor) grpc_health_v1.HealthClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := gogrpc.NewServer()
	grpc_health_v1.RegisterHealthServer(g, s)
	go func() { _ = g.Serve(listener) }()
	conn, err := gogrpc.NewClient(listener.Addr().String(), gogrpc.WithTransportCredentials(insecure.NewCredentials()),
		gogrpc.WithDisableRetry(), gogrpc.WithUnaryInterceptor(interceptor))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
	})
	return grpc_health_v1.NewHealthClient(conn)
}

func TestDeciderDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		codes     []codes.Code
		want      codes.Code
		calls     int32
		questions []string
	}{
		{"a success asks nobody", nil, codes.OK, 1, nil},
		{"a retry", []codes.Code{codes.Unavailable}, codes.OK, 2, []string{"UNAVAILABLE"}},
		{
			"the last error is returned", []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted}, codes.ResourceExhausted, 3,
			[]string{"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := standin.Start(t, 3)
			s := &server{codes: c.codes}
			health := dial(t, s, grpc.UnaryClientInterceptor(d.Client, "health", func(string) bool { return true }))
			_, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			questions := d.Questions()
			if status.Code(err) != c.want || s.calls.Load() != c.calls || len(questions) != len(c.questions) {
				t.Fatalf("%v after %d calls and questions %+v", err, s.calls.Load(), questions)
			}
			for i, q := range questions {
				if q.GRPCStatus != c.questions[i] || q.Attempt != i+1 || !q.Idempotent || q.Method != "POST" || q.Headers["grpc-retry-pushback-ms"] != "70" {
					t.Errorf("question %+v", q)
				}
			}
			if previous, _ := s.previous.Load().([]string); c.calls == 3 && (len(previous) != 1 || previous[0] != "2") {
				t.Errorf("the server was told of %v attempts before", previous)
			}
		})
	}
}

func TestACanceledWaitEnds(t *testing.T) {
	t.Parallel()
	d := standin.Start(t, 1000)
	s := &server{codes: make([]codes.Code, 1000)}
	for i := range s.codes {
		s.codes[i] = codes.Unavailable
	}
	health := dial(t, s, grpc.UnaryClientInterceptor(d.Client, "health", func(string) bool { return true }))
	ctx, cancel := context.WithTimeout(t.Context(), 5*standin.Delay)
	defer cancel()
	begin := time.Now()
	if _, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err == nil {
		t.Error("no error")
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %s", took)
	}
}
