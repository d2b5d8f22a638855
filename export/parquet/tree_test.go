package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/internal/viewertest"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// fleet writes a tree with two jobs: one from two traces, one from a merged trace with nine ranks. It returns the
// folder and the call count by job.
func fleet(t *testing.T) (dir string, calls map[string]int) {
	t.Helper()
	dir, calls = t.TempDir(), map[string]int{}
	tree := filepath.Join(dir, "fleet")
	add := func(job string, rank int, r *format.Reader) {
		res, err := WriteTree(r, acl.Model, &TreeOptions{Dir: tree, Job: job, Rank: rank})
		if err != nil {
			t.Fatal(err)
		}
		calls[job] += res.Calls
	}
	small, long := testtrace.Small(t), testtrace.Long(t, 2_000)
	add("a/b = 50%", 3, small.Reader)
	add("a/b = 50%", 1, long.Reader)
	r := job(t, 9)
	add("merged", 0, r)
	// A second export replaces the first.
	was := calls["merged"]
	add("merged", 0, r)
	if calls["merged"] = was; was != 9*len(small.Calls) {
		t.Errorf("%d calls of nine ranks, of %d each", was, len(small.Calls))
	}
	return dir, calls
}

// graphsFleet is fleet with a third job, which has graphs and steps.
func graphsFleet(t *testing.T) (dir string, calls map[string]int) {
	t.Helper()
	dir, calls = fleet(t)
	res, err := WriteTree(testtrace.Graphs(t, 3).Reader, acl.Model, &TreeOptions{Dir: filepath.Join(dir, "fleet"), Job: "graphs"})
	if err != nil || res.Steps != 40 || res.Graphs != 4 {
		t.Fatalf("%+v, %v", res, err)
	}
	calls["graphs"] = res.Calls
	return dir, calls
}

// The tree has a file for each table, job and rank, and no partial file.
func TestTreeHasAFilePerRank(t *testing.T) {
	dir, _ := fleet(t)
	n := map[string]int{}
	err := filepath.WalkDir(filepath.Join(dir, "fleet"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(filepath.Join(dir, "fleet"), filepath.Dir(path))
			if n[rel]++; strings.HasPrefix(d.Name(), ".") || !strings.HasSuffix(d.Name(), ".parquet") {
				t.Errorf("there is %s", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, table := range Tables {
		want[table+"/job=a%2Fb %3D 50%25/rank=1"], want[table+"/job=a%2Fb %3D 50%25/rank=3"] = 1, 1
		for rank := range 9 {
			want[fmt.Sprintf("%s/job=merged/rank=%d", table, rank)] = 1
		}
	}
	if len(n) != len(want) {
		t.Errorf("%v", n)
	}
	for k := range want {
		if n[k] != 1 {
			t.Errorf("%d files in %s", n[k], k)
		}
	}
	// Each rank from a merged trace has its own calls, with the merged trace's times.
	one := viewertest.Parquet(t, glob(t, filepath.Join(dir, "fleet/calls/job=merged/rank=7/*.parquet")))
	if small := testtrace.Small(t); len(one) != len(small.Calls) {
		t.Errorf("%d calls of rank 7, want %d", len(one), len(small.Calls))
	}
	if _, err := WriteTree(testtrace.Small(t).Reader, acl.Model, &TreeOptions{Dir: dir}); err == nil {
		t.Error("a job without a name")
	}
}

// A tree has the selected calls of each trace. In a merged trace, each pass selects the same calls, also the first ones.
func TestTreeOfSelection(t *testing.T) {
	r := job(t, ranksAtOnce+1)
	dir := t.TempDir()
	for _, x := range []struct {
		sel   timeline.Selection
		calls int
	}{
		{timeline.Selection{Funcs: []string{"aclrtLaunchKernel"}}, 3 * (ranksAtOnce + 1)},
		{timeline.Selection{Funcs: []string{"aclrtLaunchKernel"}, Most: 4}, 4}, // replaces the first
	} {
		res, err := WriteTree(r, acl.Model, &TreeOptions{Dir: dir, Job: "j", Select: &x.sel})
		if err != nil || res.Calls != x.calls {
			t.Fatalf("%+v, %v, want %d calls", res, err, x.calls)
		}
		rows := 0
		for rank := range ranksAtOnce + 1 {
			for _, row := range viewertest.Parquet(t, glob(t, filepath.Join(dir, fmt.Sprintf("calls/job=j/rank=%d/*.parquet", rank)))) {
				if rows++; row["function"] != "aclrtLaunchKernel" {
					t.Errorf("rank %d has a row of %v", rank, row["function"])
				}
			}
		}
		if rows != x.calls {
			t.Errorf("%d rows of %d calls", rows, x.calls)
		}
	}
}

func glob(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// A failed export leaves no file that looks like a part.
func TestTreeIsWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tasks"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteTree(testtrace.Small(t).Reader, acl.Model, &TreeOptions{Dir: dir, Job: "j"}); err == nil {
		t.Fatal("no error")
	}
	found, _ := filepath.Glob(filepath.Join(dir, "calls", "*", "*", "*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, "calls", "*", "*", ".*"))
	if len(found)+len(hidden) > 0 {
		t.Errorf("%v %v", found, hidden)
	}
}

// statements returns the n SQL statements in a page.
func statements(t *testing.T, page string, n int) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(text, -1) {
		for s := range strings.SplitSeq(string(block[1]), ";\n") {
			if strings.TrimSpace(s) != "" {
				all = append(all, s)
			}
		}
	}
	if len(all) != n {
		t.Fatalf("%d statements in %s", len(all), page)
	}
	return all
}

// The queries in docs/reference/parquet.md run in a real DuckDB and have results.
func TestPageInDuckDB(t *testing.T) {
	dir := t.TempDir()
	if err := os.Rename(written(t, testtrace.Small(t)), filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	for i, rows := range viewertest.DuckDB(t, dir, statements(t, "reference/parquet.md", 3)...) {
		if len(rows) == 0 {
			t.Errorf("query %d has no rows", i)
		}
	}
}

// The number of views and of queries in docs/howto/fleets.md.
const fleetViews, fleetQueries = 6, 10

// The queries in docs/howto/fleets.md run in a real DuckDB. Some results are also counted from the timeline.
func TestFleetInDuckDB(t *testing.T) {
	statements := statements(t, "howto/fleets.md", fleetViews+fleetQueries)
	dir, calls := graphsFleet(t)
	rows := viewertest.DuckDB(t, dir, append(statements, "select job, rank, count(*), typeof(rank) from tasks group by all order by all",
		"select job, cast(count(*) as varchar) from calls group by job order by job")...)
	for i, name := range []string{"calls, tasks and waiting", "imbalance", "errors", "launches", "kernels by rank", "copies", "the end", "measured", "steps", "graphs"} {
		if got := rows[fleetViews+i]; len(got) == 0 && name != "measured" && name != "kernels by rank" {
			t.Errorf("%s: no rows", name)
		}
	}
	var want []string
	for _, job := range []string{"a/b = 50%", "graphs", "merged"} {
		want = append(want, fmt.Sprintf("%s\t%d", job, calls[job]))
	}
	if got := rows[len(statements)+1]; !slices.Equal(got, want) {
		t.Errorf("calls by job %q, want %q", got, want)
	}
	if len(rows[len(statements)]) != 12 || !strings.HasPrefix(rows[len(statements)][0], "a/b = 50%\t1\t") || !strings.HasSuffix(rows[len(statements)][0], "\tBIGINT") {
		t.Errorf("tasks by rank %q", rows[len(statements)])
	}
	kernels := 0
	for _, k := range testtrace.Small(t).Tasks {
		if k.Kind.String() == "kernel" {
			kernels++
		}
	}
	if got, want := rows[fleetViews+1], fmt.Sprintf("merged\t9\t%d\t%d\t1", kernels, kernels); !slices.Contains(got, want) {
		t.Errorf("imbalance %q, want %q", got, want)
	}
	failed := map[string]int{}
	for _, tl := range []*timeline.Timeline{testtrace.Small(t), testtrace.Long(t, 2_000)} {
		for i := range tl.Calls {
			if c := &tl.Calls[i]; c.Failed() {
				failed[tl.Model.ErrorName(int64(int32(c.Ret)))+"\t"+c.Name]++
			} else if c.Hung() {
				failed[timeline.NeverReturned+"\t"+c.Name]++
			}
		}
	}
	if len(rows[fleetViews+2]) != len(failed) {
		t.Errorf("errors %q, want %v", rows[fleetViews+2], failed)
	}
}

// job returns a merged trace of n ranks, each on a node of its own.
func job(t *testing.T, n int) *format.Reader {
	t.Helper()
	var readers []*format.Reader
	for i := range n {
		r := testtrace.Small(t).Reader
		r.Meta().Host, r.Meta().UUID = fmt.Sprint("node", i), fmt.Sprintf("5a1e0c9d-7b34-4f6e-9d21-%012d", i)
		readers = append(readers, r)
	}
	merged := filepath.Join(t.TempDir(), "job.aclt")
	if _, err := ranks.Merge(merged, readers, acl.Model, &ranks.MergeOptions{WallOnly: true}); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(merged, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
