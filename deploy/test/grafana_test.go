//go:build linux

package deploytest

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	grafanatypes "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	prom "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

const dashboardFile = root + "/deploy/grafana/decider.json"

type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type, Query string
			Datasource        *source
		}
	}
	Panels []panel
}

type panel struct {
	Type, Title, Repeat string
	Datasource          *source
	GridPos             struct{ X, Y, W, H int }
	Targets             []struct {
		RefID, Expr  string
		LegendFormat string
		Datasource   *source
	}
}

type source struct{ Type, UID string }

func parse(t *testing.T, text string) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The dashboard can be put into any Grafana: it names no data source and no
// number of its own, and its address stays the same.
func TestDashboard(t *testing.T) {
	for kind, text := range generated(t, "dashboard", dashboardFile) {
		if m := regexp.MustCompile(`"(id|datasourceUid|orgId)": *(\d+|null|"\w)`).FindString(strings.ReplaceAll(text, `"id": "`, `"kind": "`)); m != "" {
			t.Errorf("%s: it has %s", kind, m)
		}
		d := parse(t, text)
		if d.UID != "decider" || d.Title != "decider" || d.SchemaVersion == 0 {
			t.Errorf("%s: %q %q %d", kind, d.UID, d.Title, d.SchemaVersion)
		}
		variables := map[string]bool{"__rate_interval": true}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
			if v.Type == "query" && (v.Datasource == nil || v.Datasource.UID != "${datasource}") {
				t.Errorf("%s: the variable %s asks %+v", kind, v.Name, v.Datasource)
			}
		}
		if d.Templating.List[0].Type != "datasource" || d.Templating.List[0].Query != "prometheus" {
			t.Errorf("%s: the first variable is %+v", kind, d.Templating.List[0])
		}
		checkPanels(t, kind, d, variables)
	}
}

// What Grafana's own types know, and nothing that they lack. Only the numbers of
// the rows are missing, which Grafana gives.
func TestDashboardIsOfGrafanasTypes(t *testing.T) {
	t.Parallel()
	known := cog.NewRuntime()
	known.RegisterPanelcfgVariant(timeseries.VariantConfig())
	known.RegisterPanelcfgVariant(stat.VariantConfig())
	known.RegisterPanelcfgVariant(table.VariantConfig())
	known.RegisterDataqueryVariant(prom.VariantConfig())
	for kind, text := range generated(t, "dashboard", dashboardFile) {
		numbered := strings.ReplaceAll(text, `"type": "row",`, `"type": "row", "id": 1,`)
		var board grafanatypes.Dashboard //nolint:staticcheck // every Grafana reads this schema, and only new ones the one after it
		// Without a mistake it returns an empty list of them, which is not nil.
		if err := board.UnmarshalJSONStrict([]byte(numbered)); err != nil && err.Error() != "" {
			t.Errorf("%s: %v", kind, err)
		}
		if err := board.Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func checkPanels(t *testing.T, kind string, d dashboard, variables map[string]bool) {
	t.Helper()
	titles, grid := map[string]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if titles[p.Title] {
			t.Errorf("%s: two panels are called %s", kind, p.Title)
		}
		titles[p.Title] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := grid[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s: %s lies over %q, or outside", kind, p.Title, other)
				}
				grid[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource == nil || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s: %s asks %+v", kind, p.Title, p.Datasource)
		}
		for _, target := range p.Targets {
			if target.Datasource == nil || target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %s asks %+v", kind, p.Title, target.Datasource)
			}
			for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !variables[m[1]] {
					t.Errorf("%s: %s: no variable %s", kind, p.Title, m[0])
				}
			}
			// A label in a line's name that the expression has summed away is empty.
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if strings.Contains(target.Expr, "sum") && !regexp.MustCompile(`by \([^)]*\b`+m[1]+`\b`).MatchString(target.Expr) {
					t.Errorf("%s: %s: %s is not in\n%s", kind, p.Title, m[0], target.Expr)
				}
			}
		}
	}
}
