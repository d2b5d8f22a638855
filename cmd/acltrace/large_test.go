package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
)

// An export of thousands of traces, or of a file of gigabytes, said so only at its end. --slowest sends the longest steps alone.
func TestLargeExportsAreAnnounced(t *testing.T) {
	many, size, after := manyTraces, announced, announceAfter
	defer func() { manyTraces, announced, announceAfter = many, size, after }()
	path := testtrace.Steps(t, 40, 5000, func(step, _ int) int64 { return 2_000 + int64(step) }).Reader.Path()
	for _, c := range []struct {
		args  []string
		many  int
		size  int64
		after int64
		says  string // of the announcement
	}{
		{[]string{"export", "otlp", path}, 3, 1 << 40, 1, `more than 3 traces, one a step: --slowest 10 sends the longest steps alone`},
		{[]string{"export", "otlp", "--slowest", "2", path}, 3, 1 << 40, 1, ``},
		{[]string{"export", "perfetto", path}, 1 << 30, 1 << 10, 1, `out will take about [0-9.]+ [KM]iB; choose a part with --step, or --from and --to`},
		{[]string{"export", "chrome", path}, 1 << 30, 1 << 10, 1, `out will take about [0-9.]+ [KM]iB; choose a part with --step, or --from and --to`},
		{[]string{"export", "parquet", path}, 1 << 30, 1 << 10, 1, `out will take about [0-9.]+ [KM]iB; choose a part with --step, or --from and --to`},
		{[]string{"export", "chrome", path}, 1 << 30, 1 << 40, 1, ``},
		{[]string{"export", "chrome", path}, 1 << 30, 1 << 10, 1 << 40, ``},
	} {
		manyTraces, announced, announceAfter = c.many, c.size, c.after
		var said bytes.Buffer
		if code := run(append(c.args, "-o", filepath.Join(t.TempDir(), "out")), strings.NewReader(""), &said, &said); code != 0 {
			t.Errorf("%v: code %d: %s", c.args, code, &said)
		}
		if c.says == "" {
			if strings.Contains(said.String(), "will take") || strings.Contains(said.String(), "more than") {
				t.Errorf("%v: %s", c.args, &said)
			}
		} else if n := len(regexp.MustCompile(c.says).FindAllString(said.String(), -1)); n != 1 {
			t.Errorf("%v: said %d times: %s", c.args, n, &said)
		}
	}
}
