package policy

import "testing"

// Whoever only looks must not push real names into the shared bucket.
func TestPeekTakesNoPlace(t *testing.T) {
	t.Parallel()
	set, err := Parse("file", []byte("version: 1\nmax_unknown: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name, dependency, bucket string
		find                     func(string) string
	}{
		{"a look", "a", "a", bucketOf(set.Peek)},
		{"the first to ask has the place", "b", "b", bucketOf(set.Find)},
		{"a look at another", "a", OtherBucket, bucketOf(set.Peek)},
		{"another who asks", "a", OtherBucket, bucketOf(set.Find)},
		{"a look at the first", "b", "b", bucketOf(set.Peek)},
	} {
		if got := step.find(step.dependency); got != step.bucket {
			t.Errorf("%s: bucket %q, wanted %q", step.name, got, step.bucket)
		}
	}
}

func bucketOf[P any](find func(string) (P, string, error)) func(string) string {
	return func(dependency string) string {
		_, bucket, _ := find(dependency)
		return bucket
	}
}
