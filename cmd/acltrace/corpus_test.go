package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// corpusLines are command lines without the trace's name, which comes last. The golden file has the text that they print, and size and checksum of their file out.
var corpusLines = []string{
	"info", "info --json", "stats", "stats --json", "stats --csv", "stats --by kernel", "stats --by stream --json", "stats --by thread --csv", "stats --by function --top 2",
	"stats --by step --top 3", "stats --critical-path", "stats --critical-path --json", "stats --memory", "stats --memory --json", "stats --call 5:20", "stats --step 1:3 --by kernel",
	"cat --json -n 12", "cat --tail 12", "cat --failed", "cat --longer-than 500ns --tail 5", "cat --step 1:2 -n 8", "cat --stream 1 -n 5", "cat --from 10us --to 30us -n 8",
	"cat --func aclrtMemcpy* -n 5", "cat --kernel * -n 3", "where --map", "where --map --call 12 --json", "where --addr 0x124000000010", "where --addr 0x124000000010 --json",
	"blame", "blame --json", "blame --addr 0x124000000010", "blame --call 8 --calls 2", "fsck",
	"pack -o out", "recover -o out", "merge -o out", "extract --call 8 -o out", "bundle -o out", "replay --plan-only", "replay --backend virtual",
	"export pprof -o out", "export chrome -o out", "export chrome --mindstudio -o out", "export chrome --no-args --step 1 -o out", "export html -o out", "export html --step 1:2 -o out",
	"export perfetto -o out", "export perfetto --gpu --from 10us --to 30us -o out", "export otlp -o out", "export otlp --metrics -o out",
	"export otlp --layout lanes --brackets none --device-as attribute -o out", "diff other.aclt", "diff --json --verbose other.aclt", "diff --slower --threshold 3 other.aclt",
}

// Every command that reads a trace prints and writes the same as before. A change of a golden file shows the consequences of a change in each view.
func TestViewsOfTheCorpus(t *testing.T) {
	slow := func(by int64) func(step, launch int) int64 {
		return func(step, launch int) int64 { return by + 100*int64(launch) + 5000*int64(step/7%2) }
	}
	other := testtrace.Steps(t, 20, 4, slow(1500))
	for name, tl := range map[string]*timeline.Timeline{
		"rich": testtrace.Rich(t), "deep": testtrace.Deep(t), "ranks": testtrace.Ranks(t), "steps": testtrace.Steps(t, 20, 4, slow(1000)),
		"graphs": testtrace.Graphs(t, 2), "nothing": testtrace.New(t).Load(),
	} {
		t.Run(name, func(t *testing.T) {
			archive, err := filepath.Abs("testdata/corpus")
			if err != nil {
				t.Fatal(err)
			}
			trace := name + ".aclt"
			t.Chdir(t.TempDir())
			for to, from := range map[string]*timeline.Timeline{trace: tl, "other.aclt": other} {
				if err := os.Link(from.Reader.Path(), to); err != nil {
					t.Fatal(err)
				}
			}
			got := map[string]string{}
			for _, line := range corpusLines {
				got[line] = viewed(t, append(strings.Fields(line), trace))
			}
			t.Chdir(filepath.Dir(filepath.Dir(archive)))
			for _, line := range corpusLines {
				testenv.Golden(t, "corpus/"+name+".txtar", line, got[line])
			}
		})
	}
}

// viewed runs a command, and returns the lines that it prints, those of stderr after a mark, its exit code, and what it writes.
func viewed(t *testing.T, args []string) string {
	t.Helper()
	var stdout, errs bytes.Buffer
	code := run(args, strings.NewReader(""), &stdout, &errs)
	out := bytes.NewBuffer(realTime.ReplaceAll(stdout.Bytes(), []byte("simulated")))
	for line := range strings.Lines(errs.String()) {
		out.WriteString("! " + line)
	}
	if code != 0 {
		fmt.Fprintf(out, "exit code %d\n", code)
	}
	b, err := os.ReadFile("out")
	if err != nil {
		return out.String()
	}
	switch args[0] {
	case "merge": // has a random id
		b = nil
	case "pack", "recover", "extract": // compressed
		var text bytes.Buffer
		run([]string{"cat", "--raw", "out"}, strings.NewReader(""), &text, io.Discard)
		b = text.Bytes()
	case "export":
		if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			if b, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
	}
	fmt.Fprintf(out, "out: %d bytes, %08x\n", len(b), crc32.ChecksumIEEE(b))
	if err := os.RemoveAll("out"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// realTime is the time that a simulation takes, in its report.
var realTime = regexp.MustCompile(`simulated in .*`)
