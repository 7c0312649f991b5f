package budget

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// NewClient makes a client of the Redis that a URL names, in which no command
// takes longer than timeout or is sent twice. By default it would block for
// seconds and repeat a script up to four times: a double charge.
//
// The scheme is redis, or rediss for TLS. One server:
//
//	redis://user:password@host:6379/0
//
// Sentinel, with a master_name; host is a sentinel, addr names more of them,
// and user, password and db are the server's:
//
//	redis://sentinel-1:26379?master_name=main&addr=sentinel-2:26379&username=user&password=password&db=0
//
// Cluster, with cluster=true; addr names more of its nodes:
//
//	redis://user:password@node-1:6379?cluster=true&addr=node-2:6379
//
// The client does not tell a server what library it is: those before Redis 7.2
// answer that with an error, on every connection.
//
// TLS takes the certificates that the operating system trusts, or those of the
// file that SSL_CERT_FILE names.
func NewClient(address string, timeout time.Duration) (redis.UniversalClient, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", withoutURL(err))
	}
	if cutShort(parsed) {
		return nil, fmt.Errorf("redis URL: %w", errNoURL)
	}
	query := parsed.Query()
	switch {
	case query.Get("master_name") != "":
		return newSentinelClient(address, timeout)
	case query.Has("cluster"):
		if query.Get("cluster") != "true" {
			return nil, fmt.Errorf("redis URL: cluster is true or is not there, not %q", query.Get("cluster"))
		}
		query.Del("cluster")
		parsed.RawQuery = query.Encode()
		return newClusterClient(parsed.String(), timeout)
	}
	return newSingleClient(address, timeout)
}

// errNoURL stands for whatever package url says of an address: that quotes what it
// stumbles over, which may be a piece of a password.
var errNoURL = errors.New("it cannot be read; in a user or password write % as %25, / as %2F, : as %3A, ? as %3F, # as %23 and @ as %40")

// withoutURL is a URL's error without anything of a password.
func withoutURL(err error) error {
	var unreadable *url.Error
	if errors.As(err, &unreadable) {
		return errNoURL
	}
	return err
}

// cutShort says whether a password ended the host too soon: what follows it with
// its @ is read as a path, an option or a fragment, and would be quoted as a wrong one.
func cutShort(u *url.URL) bool {
	if u.Host == "" || u.User != nil {
		return false
	}
	for option := range u.Query() {
		if strings.Contains(option, "@") {
			return true
		}
	}
	return strings.Contains(u.Path+u.Fragment, "@")
}

// idleFor is how long an unused connection is kept.
const idleFor = 5 * time.Minute

func newSingleClient(address string, timeout time.Duration) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", withoutURL(err))
	}
	// To tell the server the client's name takes a round trip of every new connection,
	// which the first command on it then lacks.
	o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries, o.DisableIdentity = true, -1, 1, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.ConnMaxIdleTime, o.MaintNotificationsConfig = idleFor, noNotifications()
	client := redis.NewClient(o)
	client.AddHook(dials{})
	return client, nil
}

func newSentinelClient(address string, timeout time.Duration) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(address)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", withoutURL(err))
	}
	o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries, o.DisableIdentity = true, -1, 1, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.ConnMaxIdleTime = idleFor
	o.TLSConfig = forEveryHost(o.TLSConfig)
	client := redis.NewFailoverClient(o)
	client.AddHook(dials{})
	return client, nil
}

func newClusterClient(address string, timeout time.Duration) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(address)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", withoutURL(err))
	}
	o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries, o.DisableIdentity = true, -1, 1, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.ConnMaxIdleTime, o.MaintNotificationsConfig = idleFor, noNotifications()
	o.TLSConfig = forEveryHost(o.TLSConfig)
	client := redis.NewClusterClient(o)
	client.OnNewNode(func(node *redis.Client) { node.AddHook(dials{}) })
	return client, nil
}

// forEveryHost holds each server to a certificate of its own name or address
// instead of that of the host in the URL.
func forEveryHost(c *tls.Config) *tls.Config {
	if c != nil {
		c.ServerName = ""
	}
	return c
}

// noNotifications keeps the client from asking for what only one vendor's
// servers know, and from logging that others do not.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
