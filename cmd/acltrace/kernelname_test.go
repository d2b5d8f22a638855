package main

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/acltrace/acltrace/internal/testtrace"
)

const (
	mangledKernel = "_Z3addPKfPfi"
	shownKernel   = "add(float const*, float*, int)"
)

// writeMangled writes a trace with a failure after launches of a C++ kernel, alone and in a graph.
func writeMangled(t *testing.T) string {
	const graph = 0x7777
	s := testtrace.NewSequence(t)
	s.Then("aclInit", testtrace.A(0))
	s.Stream(testtrace.StreamA)
	s.Malloc(testtrace.DeviceB, 4096)
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", mangledKernel), testtrace.Outs("funcHandle", testtrace.Function))
	launch := func() {
		s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceB, 64, testtrace.StreamA))
	}
	s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
	launch()
	s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x30), testtrace.Outs("modelRI", graph))
	s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, testtrace.StreamA))
	launch()
	s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Fails(507015))
	return s.Load().Reader.Path()
}

// inflated returns the content of all zlib streams in b.
func inflated(b []byte) (out []byte) {
	for i := range b {
		if z, err := zlib.NewReader(bytes.NewReader(b[i:])); err == nil {
			part, _ := io.ReadAll(z)
			out = append(out, part...)
		}
	}
	return out
}

// Views showed mangled names: top, every export, and lines of blame and replay.
func TestViewsShowKernelsBySourceName(t *testing.T) {
	trace := writeMangled(t)
	dir := t.TempDir()
	ok := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(args, nil, &stdout, &stderr); code != 0 && code != 3 {
			t.Fatalf("%v: %d: %s", args, code, &stderr)
		}
		return stdout.String()
	}
	check := func(view, content string) {
		t.Helper()
		if !strings.Contains(content, shownKernel) || strings.Contains(content, mangledKernel) {
			t.Errorf("%s has %q %d times and %q %d times", view, shownKernel, strings.Count(content, shownKernel), mangledKernel, strings.Count(content, mangledKernel))
		}
	}
	for _, view := range [][]string{{"stats"}, {"stats", "--by", "kernel"}, {"stats", "--critical-path"}, {"top", "--once"}, {"blame"}, {"cat", "--kernel", "add(*"}, {"cat", "--kernel", "_Z3add*"}} {
		check(strings.Join(view, " "), ok(append(view, trace)...))
	}
	for _, f := range exportFormats {
		path := filepath.Join(dir, f.name)
		ok("export", f.name, "-o", path, trace)
		if f.name == "parquet" {
			calls, err := parquet.ReadFile[struct {
				Kernel *string `parquet:"kernel"`
			}](filepath.Join(path, "calls.parquet"))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, c := range calls {
				if c.Kernel != nil {
					names = append(names, *c.Kernel)
				}
			}
			tasks, err := parquet.ReadFile[struct {
				Name string `parquet:"name"`
			}](filepath.Join(path, "tasks.parquet"))
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range tasks {
				names = append(names, k.Name)
			}
			check(f.name, strings.Join(names, "\n"))
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			if b, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		switch f.name {
		case "perfetto":
			b = inflated(b)
		case "html": // its figures are those of stats --json, and a table shows the second name
			b = bytes.ReplaceAll(b, []byte(`"name":"`+mangledKernel+`","demangled":`), nil)
		}
		check(f.name, string(b))
	}
}
