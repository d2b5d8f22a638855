package conformance

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// mistakes are rules whose programs make mistakes on purpose.
var mistakes = map[string]string{
	"copy_after_free":    "use-after-free",
	"freed_memory":       "use-after-free",
	"kernel_after_free":  "use-after-free",
	"finalize_twice":     "unbalanced-init",
	"number_of_blocks":   "block-dim",
	"pageable_copy":      "pageable-copy-in-capture",
	"reset_frees_memory": "leak",
}

// late are rules whose programs make a mistake in a task that may still run at the end of the program.
var late = map[string]string{"free_does_not_wait": "use-after-free"}

// Strict mode finds the intended mistakes, and no others.
func TestStrictMode(t *testing.T) {
	s := compile(t)
	slots := make(chan struct{}, 10) // most programs wait more than they run
	var all sync.WaitGroup
	for _, r := range s.rules {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			code, out := s.run(r, s.main, "ACLSIM_STRICT=1")
			var found []string
			for l := range strings.Lines(out) {
				if _, text, ok := strings.Cut(l, "== aclsim: "); ok {
					kind, _, _ := strings.Cut(text, ":")
					found = append(found, kind)
				}
			}
			var want []string
			if kind := mistakes[r.Name]; kind != "" {
				want = []string{kind}
			}
			if kind := late[r.Name]; kind != "" && len(found) > 0 {
				want = []string{kind}
			}
			if code != 0 || !slices.Equal(found, want) {
				t.Errorf("%s ends with %d, strict mode finds %q and not %q:\n%s", r.Path, code, found, want, out)
			}
		})
	}
	all.Wait()
}
