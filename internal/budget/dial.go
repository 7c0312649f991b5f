package budget

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// dials makes a connection that cannot be made one that has failed: the client
// then tells the same error, and forgets it. Otherwise its pool counts errors of
// dialing, and from the size of the pool on refuses everybody until a dial of
// its own succeeds, which it tries once a second: too late for a store that must
// be in use again a second after its return.
type dials struct{}

// DialHook wraps the client's dialing.
func (dials) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return failedConn{err}, nil
		}
		return conn, nil
	}
}

// ProcessHook changes nothing.
func (dials) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (dials) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// failedConn is a connection that could not be made: whatever is done with it
// fails with the reason.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)         { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)        { return 0, c.err }
func (c failedConn) Close() error                     { return nil }
func (c failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c failedConn) SetDeadline(time.Time) error      { return nil }
func (c failedConn) SetReadDeadline(time.Time) error  { return nil }
func (c failedConn) SetWriteDeadline(time.Time) error { return nil }
