package handlers

import (
	"net/http"
	"testing"
	"time"
)

// A fleet whose policies differ, on a store that is out of reach, after a file
// that was refused: every part is named, and the replica stays ready.
func TestStatusOfAFleetInTrouble(t *testing.T) {
	t.Parallel()
	config := testConfig(new(fakeFleet))
	config.Status = func() Status {
		return Status{
			StartedAt: epoch,
			Policies: PoliciesStatus{Hash: "aaaa", AppliedAt: epoch, Source: "policies.yaml",
				Refused: "policies.yaml:3:7: must be above 0", RefusedAt: epoch.Add(time.Minute)},
			Store: StoreStatus{Kind: "redis", Degraded: true, Since: epoch.Add(time.Hour), Means: "Each replica decides alone.", MaxmemoryPolicy: "volatile-lru"},
			Replicas: []Replica{
				{ID: "a", Version: "1.0.0", Config: "aaaa", Since: epoch, Self: true},
				{ID: "b", Version: "1.0.1", Config: "bbbb", Since: epoch.Add(time.Second)},
			},
		}
	}
	c := newCaller(t, newHandler(t, config))
	golden(t, "status-trouble.json", c.get("/v1/status").body)
	ready := c.get("/readyz")
	if ready.status != http.StatusOK {
		t.Errorf("/readyz answered %d", ready.status)
	}
	golden(t, "ready-trouble.json", ready.body)
}

func TestStatusOfAFleetThatIsWell(t *testing.T) {
	t.Parallel()
	config := testConfig(new(fakeFleet))
	alone := config.Status
	config.Status = func() Status {
		s := alone()
		s.Replicas = append(s.Replicas, Replica{ID: "two", Version: "test", Config: "0", Since: epoch})
		return s
	}
	c := newCaller(t, newHandler(t, config))
	if got := c.get("/v1/status").member(t, "drift"); got != false {
		t.Errorf("drift is %v", got)
	}
	golden(t, "ready.json", c.get("/readyz").body)
}
