package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// layerBenchmarks are Go's benchmarks of the layers, from the inside out.
var layerBenchmarks = []struct{ layer, dir, pattern string }{
	{"decide: Plan", "./internal/decide", "^BenchmarkPlan$"},
	{"budget: memory", "./internal/budget", "^BenchmarkMemoryAsk$"},
	{"budget: Redis", "./internal/budget", "^BenchmarkRedisAsk$"},
	{"handlers: codec", "./internal/handlers", "^Benchmark(ReadAttempt|AppendDecision)$"},
	{"handlers: whole", "./internal/handlers", "^Benchmark(DecideHandler|BatchHandler|DecideHTTP|BareEcho)$"},
}

// layers runs them and keeps their output, which is benchstat's input.
func layers(ctx context.Context, o *options) error {
	m := thisMachine()
	t := table{title: "Each layer by itself", rows: [][]string{{"layer", "benchmark", "time", "allocated", "allocations"}}}
	var raw strings.Builder
	for _, each := range layerBenchmarks {
		fmt.Fprintln(os.Stderr, each.layer)
		out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", each.pattern, "-benchmem", "-benchtime", "200ms", "-count", strconv.Itoa(o.rounds), each.dir).CombinedOutput() //nolint:gosec // of patterns of its own
		if err != nil {
			return fmt.Errorf("%s: %w: %s", each.layer, err, out)
		}
		raw.Write(out)
		for _, b := range medians(readBenchmarks(string(out))) {
			t.rows = append(t.rows, []string{each.layer, b.name, nanos(b.nanos), number(b.bytes, "B"), number(b.allocs, "")})
		}
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "layers.txt"), []byte(raw.String()), 0o600); err != nil {
		return err
	}
	return publish(o, "layers", "Measured on "+m.String()+".", []table{t}, t.rows, "")
}

// benchmark is a line of go test -bench.
type benchmark struct {
	name                 string
	nanos, bytes, allocs float64
}

// readBenchmarks reads the lines of go test -bench.
func readBenchmarks(out string) (list []benchmark) {
	for text := range strings.Lines(out) {
		fields := strings.Fields(text)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i] // of the processors
		}
		b := benchmark{name: strings.ReplaceAll(name, "_", " ")}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				continue
			}
			switch fields[i+1] {
			case "ns/op":
				b.nanos = value
			case "B/op":
				b.bytes = value
			case "allocs/op":
				b.allocs = value
			}
		}
		list = append(list, b)
	}
	return list
}

// medians makes one of each name's several.
func medians(list []benchmark) (out []benchmark) {
	for _, b := range list {
		if slices.ContainsFunc(out, func(known benchmark) bool { return known.name == b.name }) {
			continue
		}
		var nanos, bytes, allocs []float64
		for _, same := range list {
			if same.name == b.name {
				nanos, bytes, allocs = append(nanos, same.nanos), append(bytes, same.bytes), append(allocs, same.allocs)
			}
		}
		out = append(out, benchmark{b.name, median(nanos), median(bytes), median(allocs)})
	}
	return out
}

func nanos(n float64) string {
	if n >= 1000 {
		return number(n/1000, "µs")
	}
	return number(n, "ns")
}
