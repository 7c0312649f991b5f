package monitoring

import (
	"encoding/json"
	"strings"
)

// dashboardUID is how links find the dashboard, in every Grafana.
const dashboardUID = "decider"

// What a panel shows is of the chosen fleets and dependencies.
const (
	chosenFleet = `job=~"$job"`
	chosen      = `job=~"$job",dependency=~"$dependency"`
	rate        = "$__rate_interval"
)

type (
	dashboard struct {
		Title         string     `json:"title"`
		UID           string     `json:"uid"`
		Description   string     `json:"description"`
		Tags          []string   `json:"tags"`
		SchemaVersion int        `json:"schemaVersion"`
		Editable      bool       `json:"editable"`
		GraphTooltip  int        `json:"graphTooltip"` // 1: one crosshair for all
		Refresh       string     `json:"refresh"`
		Time          timeRange  `json:"time"`
		Annotations   annotated  `json:"annotations"`
		Templating    templating `json:"templating"`
		Panels        []panel    `json:"panels"`
	}
	annotated struct {
		List []any `json:"list"`
	}
	timeRange struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	templating struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name       string      `json:"name"`
		Label      string      `json:"label"`
		Type       string      `json:"type"`
		Query      string      `json:"query"`
		Datasource *datasource `json:"datasource,omitempty"`
		Multi      bool        `json:"multi"`
		IncludeAll bool        `json:"includeAll"`
		AllValue   string      `json:"allValue,omitempty"`
		Current    *current    `json:"current,omitempty"`
		Refresh    int         `json:"refresh"` // 2: with the time range
		Sort       int         `json:"sort"`
	}
	current struct {
		Text  []string `json:"text"`
		Value []string `json:"value"`
	}
	datasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	panel struct {
		Type            string           `json:"type"`
		Title           string           `json:"title"`
		Description     string           `json:"description,omitempty"`
		Datasource      *datasource      `json:"datasource,omitempty"`
		GridPos         position         `json:"gridPos"`
		Repeat          string           `json:"repeat,omitempty"`
		RepeatDirection string           `json:"repeatDirection,omitempty"`
		MaxPerRow       int              `json:"maxPerRow,omitempty"`
		Targets         []target         `json:"targets,omitempty"`
		FieldConfig     *fieldConfig     `json:"fieldConfig,omitempty"`
		Options         any              `json:"options,omitempty"`
		Transformations []transformation `json:"transformations,omitempty"`
		*row
	}
	// row is what a panel of the type row has beside.
	row struct {
		Collapsed bool    `json:"collapsed"`
		Panels    []panel `json:"panels"`
	}
	position struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	target struct {
		RefID      string      `json:"refId"`
		Datasource *datasource `json:"datasource"`
		Expr       string      `json:"expr"`
		Legend     string      `json:"legendFormat,omitempty"`
		Instant    bool        `json:"instant,omitempty"`
		Range      bool        `json:"range,omitempty"`
		Format     string      `json:"format,omitempty"`
	}
	fieldConfig struct {
		Defaults  fieldDefaults `json:"defaults"`
		Overrides []override    `json:"overrides"`
	}
	fieldDefaults struct {
		Unit       string      `json:"unit,omitempty"`
		Min        *float64    `json:"min,omitempty"`
		Custom     any         `json:"custom,omitempty"`
		Thresholds *thresholds `json:"thresholds,omitempty"`
	}
	thresholds struct {
		Mode  string `json:"mode"`
		Steps []step `json:"steps"`
	}
	step struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"` // null: from the beginning
	}
	override struct {
		Matcher    matcher    `json:"matcher"`
		Properties []property `json:"properties"`
	}
	matcher struct {
		ID      string `json:"id"`
		Options string `json:"options"`
	}
	property struct {
		ID    string `json:"id"`
		Value any    `json:"value"`
	}
	transformation struct {
		ID      string `json:"id"`
		Options any    `json:"options"`
	}
)

var source = &datasource{"prometheus", "${datasource}"}

// Dashboard is Grafana's JSON of the dashboard. Of each dependency it has a
// panel; without any, one panel is repeated for those that the metrics name.
func Dashboard(dependencies []Dependency) ([]byte, error) {
	d := dashboard{
		Title: "decider", UID: dashboardUID, Tags: []string{"decider"}, SchemaVersion: 39, GraphTooltip: 1, Editable: true,
		Description: `Retries of the whole fleet. Written by "decider gen dashboard"; change it there, or give it your policy file for a panel per dependency.`,
		Refresh:     "10s", Time: timeRange{"now-1h", "now"}, Annotations: annotated{[]any{}},
		Templating: templating{[]variable{
			{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1},
			query("job", "Fleet", "label_values(decider_build_info, job)"),
			query("dependency", "Dependency", "label_values(decider_decisions_total{"+chosenFleet+"}, dependency)"),
		}},
		Panels: layOut(sections(dependencies)),
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// query is a variable of all values of a label.
func query(name, label, expr string) variable {
	return variable{Name: name, Label: label, Type: "query", Query: expr, Datasource: source, Multi: true, IncludeAll: true,
		AllValue: ".*", Current: &current{[]string{"All"}, []string{"$__all"}}, Refresh: 2, Sort: 1}
}

// section is a row and what is under it.
type section struct {
	title  string
	panels []panel
}

// layOut gives every panel its place in a grid of 24 columns: as many beside
// each other as fit.
func layOut(sections []section) (all []panel) {
	y := 0
	for _, s := range sections {
		all = append(all, panel{Type: "row", Title: s.title, GridPos: position{H: 1, W: 24, Y: y}, row: &row{Panels: []panel{}}})
		y++
		x, height := 0, 0
		for _, p := range s.panels {
			if x+p.GridPos.W > 24 {
				x, y, height = 0, y+height, 0
			}
			p.GridPos.X, p.GridPos.Y = x, y
			x, height = x+p.GridPos.W, max(height, p.GridPos.H)
			all = append(all, p)
		}
		y += height
	}
	return all
}

// show is one expression of a panel and what its lines are called.
type show struct{ expr, legend string }

// graph is a panel of lines over time.
func graph(width int, title, unit, description string, shows ...show) panel {
	zero := 0.0
	p := panel{Type: "timeseries", Title: title, Description: description, Datasource: source, GridPos: position{H: 8, W: width},
		FieldConfig: &fieldConfig{Defaults: fieldDefaults{Unit: unit, Min: &zero, Custom: map[string]any{
			"fillOpacity": 10, "lineWidth": 1, "showPoints": "never", "spanNulls": false}}, Overrides: []override{}},
		Options: map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"}}}
	for i, s := range shows {
		p.Targets = append(p.Targets, target{RefID: refID(i), Datasource: source, Expr: s.expr, Legend: s.legend, Range: true})
	}
	return p
}

// stacked adds the lines of a panel up.
func stacked(p panel) panel {
	custom := p.FieldConfig.Defaults.Custom.(map[string]any)
	custom["stacking"], custom["fillOpacity"] = map[string]any{"mode": "normal", "group": "A"}, 40
	return p
}

// stat is a panel of one number; it turns orange and red at the given values,
// and where red is below orange, when it falls to them.
func stat(title, unit, description, expr string, steps ...step) panel {
	if len(steps) == 0 {
		steps = []step{{"text", nil}}
	}
	return panel{Type: "stat", Title: title, Description: description, Datasource: source, GridPos: position{H: 4, W: 4},
		Targets:     []target{{RefID: "A", Datasource: source, Expr: expr, Instant: true}},
		FieldConfig: &fieldConfig{Defaults: fieldDefaults{Unit: unit, Thresholds: &thresholds{"absolute", steps}}, Overrides: []override{}},
		Options: map[string]any{"colorMode": "value", "graphMode": "none", "textMode": "value",
			"justifyMode": "auto", "orientation": "auto", "wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}}}
}

// worseFrom is green below the first value, orange below the second, then red.
func worseFrom(orange, red float64) []step {
	return []step{{"green", nil}, {"orange", &orange}, {"red", &red}}
}

// redBelow is red below the value and green from it on.
func redBelow(value float64) []step { return []step{{"red", nil}, {"green", &value}} }

// column is one of a table's.
type column struct{ title, unit, expr string }

// table is a panel with a line for each dependency.
func table(title, description string, columns ...column) panel {
	p := panel{Type: "table", Title: title, Description: description, Datasource: source, GridPos: position{H: 9, W: 24},
		FieldConfig: &fieldConfig{Overrides: []override{}}, Options: map[string]any{"frameIndex": 0, "showHeader": true}}
	names := map[string]string{"dependency": "Dependency"}
	for i, c := range columns {
		id := refID(i)
		p.Targets = append(p.Targets, target{RefID: id, Datasource: source, Expr: c.expr, Instant: true, Format: "table"})
		names["Value #"+id] = c.title
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, override{matcher{"byName", c.title}, []property{{"unit", c.unit}, {"decimals", 2}}})
	}
	p.Transformations = []transformation{
		{"merge", map[string]any{}},
		{"organize", map[string]any{"excludeByName": map[string]bool{"Time": true}, "renameByName": names}},
	}
	return p
}

func refID(i int) string { return string(rune('A' + i)) }

// named is a dashboard's text, in which $ stands before a variable and which is
// shown as Markdown.
func named(d Dependency) (title, description string) {
	description = d.Description
	if d.Owner != "" {
		description = strings.TrimSpace(description + "\n\nOwner: " + d.Owner)
	}
	return d.Name, strings.ReplaceAll(description, "$", "$\u200b")
}
