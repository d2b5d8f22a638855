package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
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
	"info", "info --json", "stats", "stats --json", "stats --csv", "stats --by kernel", "stats --by shape", "stats --by shape --csv", "stats --by operator", "cat --operator aclnnA* -n 12", "stats --by stream --json", "stats --by thread --csv", "stats --by function --top 2",
	"stats --by step --top 3", "stats --critical-path", "stats --critical-path --json", "stats --memory", "stats --memory --json", "stats --call 5:20", "stats --step 1:3 --by kernel",
	"cat --json -n 12", "cat --tail 12", "cat --failed", "cat --longer-than 500ns --tail 5", "cat --step 1:2 -n 8", "cat --stream 1 -n 5", "cat --from 10us --to 30us -n 8",
	"cat --func aclrtMemcpy* -n 5", "cat --kernel * -n 3", "where --map", "where --map --call 12 --json", "where --addr 0x124000000010", "where --addr 0x124000000010 --json",
	"blame", "blame --json", "blame --addr 0x124000000010", "blame --call 8 --calls 2", "fsck",
	"pack -o out", "recover -o out", "merge -o out", "extract --call 8 -o out", "bundle -o out", "replay --plan-only", "replay --backend virtual",
	"export pprof -o out", "export chrome -o out", "export chrome --mindstudio -o out", "export chrome --no-args --step 1 -o out", "export html -o out", "export html --step 1:2 -o out",
	"export parquet -o out", "export parquet --step 1 -o out", "export perfetto -o out", "export perfetto --gpu --from 10us --to 30us -o out", "export otlp -o out", "export otlp --metrics -o out",
	"export otlp --layout lanes --brackets none --device-as attribute -o out", "diff other.aclt", "diff --json --verbose other.aclt", "diff --slower --threshold 3 other.aclt",
}

// damagedLines are those for damaged traces.
var damagedLines = []string{
	"info", "info --json", "info --strict", "stats", "stats --strict --json", "cat --tail 5", "cat --json --tail 2", "cat --raw", "where --map", "blame", "fsck", "pack -o out", "recover -o out",
	"merge -o out", "export chrome -o out", "export pprof -o out", "diff other.aclt",
}

// Every command that reads a trace prints and writes the same as before. A change of a golden file shows the consequences of a change in each view.
func TestViewsOfTheCorpus(t *testing.T) {
	slow := func(by int64) func(step, launch int) int64 {
		return func(step, launch int) int64 { return by + 100*int64(launch) + 5000*int64(step/7%2) }
	}
	read := func(tl *timeline.Timeline) []byte {
		b, err := os.ReadFile(tl.Reader.Path())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	other, rich := read(testtrace.Steps(t, 20, 4, slow(1500))), read(testtrace.Rich(t))
	flipped := bytes.Clone(rich)
	flipped[len(flipped)/2] ^= 8
	for name, trace := range map[string][]byte{
		"rich": rich, "deep": read(testtrace.Deep(t)), "ranks": read(testtrace.Ranks(t)), "steps": read(testtrace.Steps(t, 20, 4, slow(1000))),
		"graphs": read(testtrace.Graphs(t, 2)), "operators": read(testtrace.Operators(t)), "shapes": read(testtrace.Shapes(t)), "job": read(testtrace.Job(t)), "nothing": read(testtrace.New(t).Load()), "cut": rich[:len(rich)*6/10], "flipped": flipped,
	} {
		lines := corpusLines
		if name == "cut" || name == "flipped" {
			lines = damagedLines
		}
		t.Run(name, func(t *testing.T) {
			archive, err := filepath.Abs("testdata/corpus")
			if err != nil {
				t.Fatal(err)
			}
			file := name + ".aclt"
			t.Chdir(t.TempDir())
			for to, b := range map[string][]byte{file: trace, "other.aclt": other} {
				if err := os.WriteFile(to, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := map[string]string{}
			for _, line := range lines {
				got[line] = viewed(t, append(strings.Fields(line), file))
			}
			t.Chdir(filepath.Dir(filepath.Dir(archive)))
			for _, line := range lines {
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
	err := filepath.WalkDir("out", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		} else if err != nil {
			return err
		}
		b, err := content(args[0], path)
		if fmt.Fprint(out, path); b != nil {
			fmt.Fprintf(out, ": %d bytes, %08x", len(b), crc32.ChecksumIEEE(b))
		}
		fmt.Fprintln(out)
		return err
	})
	if err := errors.Join(err, os.RemoveAll("out")); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// content returns what a command has written into a file, not compressed. It returns nil if the content has a random id, or consists of the player's source.
func content(command, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	switch command {
	case "merge", "bundle":
		return nil, nil
	case "pack", "recover", "extract":
		var text bytes.Buffer
		run([]string{"cat", "--raw", path}, strings.NewReader(""), &text, io.Discard)
		return text.Bytes(), nil
	}
	if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
		return io.ReadAll(z)
	}
	return b, nil
}

// realTime is the time that a simulation takes, in its report.
var realTime = regexp.MustCompile(`simulated in .*`)
