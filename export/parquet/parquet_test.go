package parquet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/internal/viewertest"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

func written(t *testing.T, tl *timeline.Timeline) string {
	t.Helper()
	dir := t.TempDir()
	res, err := Write(func(table string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, table+".parquet")) }, tl.Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Calls != len(tl.Calls) || res.Tasks != len(tl.Tasks) {
		t.Errorf("%+v", res)
	}
	return dir
}

// number returns an integer value. The reader returns 64-bit integers as text.
func number(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatInt(int64(f), 10)
	}
	return fmt.Sprint(v)
}

// Another reader finds the timeline's values, row by row.
func TestAnotherReaderFindsTheTimeline(t *testing.T) {
	for name, tl := range map[string]*timeline.Timeline{"small": testtrace.Small(t), "long": testtrace.Long(t, 4_000)} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, tl)
			calls := viewertest.Parquet(t, filepath.Join(dir, "calls.parquet"))
			if len(calls) != len(tl.Calls) {
				t.Fatalf("%d calls, want %d", len(calls), len(tl.Calls))
			}
			threads, procs := tl.Reader.Threads(), tl.Reader.Processes()
			for i, row := range calls {
				c := &tl.Calls[i]
				end, ret, fail := c.End, int64(int32(c.Ret)), any(nil)
				if c.Flags&format.Unfinished != 0 {
					end = tl.End
				}
				if c.Failed() {
					fail = tl.Model.ErrorName(ret)
				} else if c.Hung() {
					fail = timeline.NeverReturned
				}
				kernel := any(nil)
				if c.Kernel != "" {
					kernel = c.Kernel
				}
				start, err := time.Parse(time.RFC3339, row["start"].(string)) // the reader has milliseconds
				want := time.Unix(0, tl.Reader.Meta().StartWall+c.Start)
				if err != nil || start.UnixMilli() != want.UnixMilli() {
					t.Errorf("call %d began at %v, want %v: %v", i, row["start"], want, err)
				}
				got := fmt.Sprint(row["recording"], number(row["call"]), number(row["pid"]), number(row["tid"]), row["function"], number(row["start_ns"]), number(row["duration_ns"]),
					number(row["ret"]), row["error"], row["kernel"], row["unfinished"], row["task"])
				if want := fmt.Sprint(tl.Reader.Meta().UUID, strconv.FormatUint(c.Index, 10), strconv.Itoa(procs[threads[c.Thread].Process].PID), strconv.Itoa(threads[c.Thread].TID), c.Name,
					strconv.FormatInt(c.Start, 10), strconv.FormatInt(end-c.Start, 10), strconv.FormatInt(ret, 10), fail, kernel, c.Flags&format.Unfinished != 0, c.Task >= 0); got != want {
					t.Fatalf("call %d:\n got %s\nwant %s", i, got, want)
				}
			}
			tasks := byCall(viewertest.Parquet(t, filepath.Join(dir, "tasks.parquet")))
			if len(tasks) != len(tl.Tasks) {
				t.Fatalf("%d tasks, want %d", len(tasks), len(tl.Tasks))
			}
			var copies, kernels []string
			for i, row := range tasks {
				k := &tl.Tasks[i]
				want := fmt.Sprint(strconv.FormatUint(k.Call, 10), k.Name, k.Kind, tl.Lanes[k.Lane].Name, strconv.FormatInt(k.From, 10), strconv.FormatInt(k.To, 10), k.Measured, k.Open)
				if got := taskOf(row); got != want {
					t.Fatalf("task %d:\n got %s\nwant %s", i, got, want)
				}
				switch k.Kind {
				case api.Copy:
					copies = append(copies, fmt.Sprint(want, k.Direction(), k.Bytes, k.Pageable()))
				case api.Kernel:
					kernels = append(kernels, fmt.Sprint(want, " ", k.Blocks))
				}
			}
			var got []string
			for _, row := range byCall(viewertest.Parquet(t, filepath.Join(dir, "copies.parquet"))) {
				got = append(got, fmt.Sprint(taskOf(row), row["direction"], number(row["bytes"]), " ", row["pageable"]))
			}
			if strings.Join(got, "\n") != strings.Join(copies, "\n") {
				t.Errorf("copies\n%.500q\nwant\n%.500q", got, copies)
			}
			got = nil
			for _, row := range byCall(viewertest.Parquet(t, filepath.Join(dir, "kernels.parquet"))) {
				blocks := row["blocks"]
				if blocks == nil {
					blocks = 0.
				}
				got = append(got, fmt.Sprint(taskOf(row), " ", number(blocks)))
			}
			if strings.Join(got, "\n") != strings.Join(kernels, "\n") {
				t.Errorf("kernels\n%.500q\nwant\n%.500q", got, kernels)
			}
		})
	}
}

// Another reader finds every row group once.
func TestRowGroups(t *testing.T) {
	defer func(n int) { groupRows = n }(groupRows)
	groupRows = batchRows
	tl := testtrace.Long(t, 20*batchRows)
	dir := written(t, tl)
	for i, row := range viewertest.Parquet(t, filepath.Join(dir, "calls.parquet")) {
		if c := &tl.Calls[i]; number(row["call"]) != strconv.FormatUint(c.Index, 10) || row["function"] != c.Name || number(row["start_ns"]) != strconv.FormatInt(c.Start, 10) {
			t.Fatalf("row %d is %v, want call %d", i, row, c.Index)
		}
	}
	seen := 0
	for i, row := range byCall(viewertest.Parquet(t, filepath.Join(dir, "kernels.parquet"))) {
		for tl.Tasks[seen].Kind != api.Kernel {
			seen++
		}
		if k := &tl.Tasks[seen]; number(row["call"]) != strconv.FormatUint(k.Call, 10) || row["name"] != k.Name || number(row["to_ns"]) != strconv.FormatInt(k.To, 10) {
			t.Fatalf("row %d is %v, want task of call %d", i, row, k.Call)
		}
		seen++
	}
	if seen < 15*batchRows {
		t.Errorf("%d kernels are too few to tell", seen)
	}
}

// byCall sorts rows by call.
func byCall(rows []map[string]any) []map[string]any {
	call := func(row map[string]any) int {
		n, err := strconv.Atoi(number(row["call"]))
		if err != nil {
			panic(err)
		}
		return n
	}
	slices.SortStableFunc(rows, func(a, b map[string]any) int { return cmp.Compare(call(a), call(b)) })
	return rows
}

func taskOf(row map[string]any) string {
	return fmt.Sprint(number(row["call"]), row["name"], row["kind"], row["stream"], number(row["from_ns"]), number(row["to_ns"]), row["measured"], row["open"])
}

// Each table's metadata has the number of lost calls. Regression: calls outside --steps were among them.
func TestMetadataHasTheLostCalls(t *testing.T) {
	b := testtrace.New(t)
	b.Call(2, 1000, 1100, "aclrtSynchronizeDevice", nil)
	b.Gap(format.Gap{Thread: 2, From: 2000, To: 3000, Calls: 17, Reason: format.Dropped})
	b.Gap(format.Gap{Thread: 2, From: 4000, To: 5000, Calls: 100, Reason: format.Detached})
	dir := written(t, b.Load())
	for _, table := range Tables {
		b, err := os.ReadFile(filepath.Join(dir, table+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := f.Lookup("acltrace.calls_lost"); !ok || n != "17" {
			t.Errorf("%s: %q calls lost", table, n)
		}
	}
}

// docs/reference/parquet.md names every column.
func TestSchemaPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "parquet.md"))
	if err != nil {
		t.Fatal(err)
	}
	tl := testtrace.New(t).Load()
	x := map[string][]string{}
	tables, err := newTables(func(string) (io.WriteCloser, error) { return os.OpenFile(os.DevNull, os.O_WRONLY, 0) }, tl.Reader, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, table := range tables {
		for _, c := range table.columns {
			x[Tables[i]] = append(x[Tables[i]], c.meta.PathInSchema...)
		}
	}
	for _, table := range Tables {
		if len(x[table]) == 0 || !strings.Contains(string(page), "## "+table) {
			t.Errorf("no table %s", table)
		}
		for _, c := range x[table] {
			if !strings.Contains(string(page), "| `"+c+"` |") {
				t.Errorf("column %s of %s is not on the page", c, table)
			}
		}
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
func (w failing) Close() error              { return nil }

func TestWriteError(t *testing.T) {
	full := errors.New("no space left on device")
	if _, err := Write(func(string) (io.WriteCloser, error) { return failing{full}, nil }, testtrace.Small(t).Reader, acl.Model, nil); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := Write(func(string) (io.WriteCloser, error) { return nil, full }, testtrace.Small(t).Reader, acl.Model, nil); !errors.Is(err, full) {
		t.Error(err)
	}
}

// A disk that fills up midway ends the export, whichever table it hits.
func TestFullOnTheWay(t *testing.T) {
	defer func(n int) { groupRows = n }(groupRows)
	groupRows = batchRows
	full := errors.New("no space left on device")
	r := testtrace.Long(t, 20*batchRows).Reader
	for _, name := range Tables[:2] {
		writes := 0
		_, err := Write(func(table string) (io.WriteCloser, error) {
			if table != name {
				return counting{new(int64)}, nil
			}
			return later{&writes, full}, nil
		}, r, acl.Model, nil)
		if !errors.Is(err, full) || writes > 200 {
			t.Errorf("%s: %v behind %d writes", name, err, writes)
		}
	}
}

// later fails from the hundredth write on.
type later struct {
	n   *int
	err error
}

func (l later) Write(b []byte) (int, error) {
	if *l.n++; *l.n >= 100 {
		return 0, l.err
	}
	return len(b), nil
}
func (l later) Close() error { return nil }

func TestEmptyTraceHasEmptyTables(t *testing.T) {
	dir := written(t, testtrace.New(t).Load())
	for _, table := range Tables {
		if rows := viewertest.Parquet(t, filepath.Join(dir, table+".parquet")); len(rows) != 0 {
			t.Errorf("%s: %v", table, rows)
		}
	}
}

type counting struct{ n *int64 }

func (c counting) Write(b []byte) (int, error) { *c.n += int64(len(b)); return len(b), nil }
func (counting) Close() error                  { return nil }

// BenchmarkWrite reports calls, with their tasks, per processor second in the best round.
func BenchmarkWrite(b *testing.B) {
	const calls = 1_000_000
	r := testtrace.Decoding(b, calls, true)
	b.ReportAllocs()
	best := time.Hour
	var bytes int64
	for b.Loop() {
		began := testenv.CPUTime()
		bytes = 0
		if _, err := Write(func(string) (io.WriteCloser, error) { return counting{&bytes}, nil }, r, acl.Model, nil); err != nil {
			b.Fatal(err)
		}
		best = min(best, testenv.CPUTime()-began)
	}
	b.ReportMetric(calls/best.Seconds()/1e6, "Mcalls/cpu-s")
	b.ReportMetric(float64(bytes)/calls, "B/call")
}

// Spark 4.3 refuses a file with a timestamp of nanoseconds, unless an option is set. Regression: every file had one.
func TestNoTimestampOfNanoseconds(t *testing.T) {
	dir := written(t, testtrace.Rich(t))
	moments := 0
	for _, table := range Tables {
		b, err := os.ReadFile(filepath.Join(dir, table+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range f.Metadata().Schema {
			text := e.LogicalType.String()
			if !strings.HasPrefix(text, "TIMESTAMP") {
				continue
			}
			if moments++; text != "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)" {
				t.Errorf("%s.%s is %s", table, e.Name, text)
			}
		}
	}
	if moments != 5 {
		t.Errorf("%d moments", moments)
	}
}
