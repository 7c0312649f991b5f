//go:build linux

package deploytest

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// prometheus starts a real one with the configuration of docker-compose.yml,
// but for the addresses, the paths and the pause between scrapes. (Debian's is
// of a line before that of the image; the file has to be good for both.)
func prometheus(t *testing.T, deciders ...string) (base string) {
	t.Helper()
	config := strings.NewReplacer(
		`"decider-a:8080", "decider-b:8080"`, `"`+strings.Join(deciders, `", "`)+`"`,
		"/etc/prometheus/rules.yaml", write(t, "rules.yaml", readFile(t, rulesFile)),
		"5s", "1s", "4s", "1s",
	).Replace(readFile(t, root+"/deploy/compose/prometheus.yml"))
	file := write(t, "prometheus.yml", config)
	runs(t, "promtool", "check", "config", file)
	listen := address(t)
	starts(t, "prometheus", "--config.file="+file, "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+listen)
	base = "http://" + listen
	eventually(t, func() error { return get(base+"/-/ready", new(string)) })
	return base
}

// query asks Prometheus, and returns how many series it has.
func query(base, expr string) (series int, err error) {
	var answer struct {
		Data struct{ Result []any }
	}
	err = get(base+"/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return len(answer.Data.Result), err
}

// Two deciders on one Redis under traffic, and Prometheus beside them: both are
// scraped, every rule is evaluated, and every panel of the dashboard has data.
func TestPrometheusSees(t *testing.T) {
	t.Parallel()
	store := redis(t)
	one, two := serve(t, store), serve(t, store)
	base := prometheus(t, one, two)
	ended := make(chan struct{})
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			_ = errors.Join(traffic(one, 1), traffic(two, 1)) // a panel without data is what is looked at
		}
	}()
	eventually(t, func() error {
		n, err := query(base, `up{job="decider"} == 1`)
		if err == nil && n != 2 {
			err = fmt.Errorf("%d targets are up", n)
		}
		return err
	})
	eventually(t, func() error { return evaluated(base) })
	for _, p := range parse(t, readFile(t, dashboardFile)).Panels {
		for _, target := range p.Targets {
			expr := strings.ReplaceAll(grafana.Replace(target.Expr), "[1m]", "[10s]")
			eventually(t, func() error {
				n, err := query(base, expr)
				if err == nil && n == 0 {
					err = fmt.Errorf("%s %s has no data: %s", p.Title, target.RefID, expr)
				}
				return err
			})
		}
	}
}

// evaluated says which rules have not been, or not without a mistake.
func evaluated(base string) error {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := get(base+"/api/v1/rules", &answer); err != nil {
		return err
	}
	count := 0
	for _, group := range answer.Data.Groups {
		for _, r := range group.Rules {
			count++
			if r.Health != "ok" {
				return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if count == 0 {
		return errors.New("no rule is loaded")
	}
	return nil
}
