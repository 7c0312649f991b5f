package handlers

import (
	"io"
	"sort"
)

func keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	return names
}

func sorted(names []string) []string {
	sort.Strings(names)
	return names
}

func anys(words []string) []any {
	list := make([]any, len(words))
	for i, word := range words {
		list[i] = word
	}
	return list
}

type nopCloser struct{ io.Reader }

func (nopCloser) Close() error { return nil }
