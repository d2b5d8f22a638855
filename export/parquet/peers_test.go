package parquet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// peer runs peers/peers.py with one reader, in build/parquet of scripts/parquet.sh.
func peer[T any](t *testing.T, reader string, request map[string]any) (answer []T) {
	t.Helper()
	python := os.Getenv("ACLTRACE_PARQUET")
	if python == "" {
		t.Skip("other readers of Parquet run by `make test-parquet`")
	}
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("peers", "peers.py"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python, script, reader, string(text))
	var problems bytes.Buffer
	c.Stderr = &problems
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, &answer)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", reader, err, problems.Bytes())
	}
	return answer
}

// Readers of single files see all rows, and moments to the microsecond.
func TestPeersReadFiles(t *testing.T) {
	dir := written(t, testtrace.Rich(t))
	var files []string
	rows := map[string]int64{}
	for _, table := range Tables {
		files = append(files, table+".parquet")
		b, err := os.ReadFile(filepath.Join(dir, table+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		rows[table] = f.NumRows()
	}
	calls, err := parquet.ReadFile[Call](filepath.Join(dir, "calls.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	bounds := []int64{calls[0].Start, calls[len(calls)-1].Start}
	for _, reader := range []string{"pyarrow", "pandas", "polars"} {
		t.Run(reader, func(t *testing.T) {
			for i, got := range peer[struct {
				Rows   int64
				Moment string
				Bounds []int64
			}](t, reader, map[string]any{"folder": dir, "files": files}) {
				table := Tables[i]
				if got.Rows != rows[table] || table != "graphs" && got.Moment != "timestamp[us, tz=UTC]" || table == "calls" && !reflect.DeepEqual(got.Bounds, bounds) {
					t.Errorf("%s: %+v, want %d rows", table, got, rows[table])
				}
			}
		})
	}
}

// Engines answer the queries in docs/howto/fleets.md alike. Regression: Spark refused every file, and ClickHouse two of the queries.
func TestPeersAnswerQueries(t *testing.T) {
	dir, _ := graphsFleet(t)
	queries := statements(t, "howto/fleets.md", fleetViews+fleetQueries)
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "howto", "fleets.md"))
	if err != nil {
		t.Fatal(err)
	}
	views := map[string][]string{"duckdb": queries[:fleetViews]}
	for _, engine := range []string{"spark", "clickhouse"} {
		block := regexp.MustCompile("(?s)```sql " + engine + "\n(.*?)```").FindSubmatch(page)
		if block == nil {
			t.Fatalf("no views for %s", engine)
		}
		for s := range strings.SplitSeq(strings.TrimSuffix(string(block[1]), ";\n"), ";\n") {
			views[engine] = append(views[engine], s)
		}
	}
	// The last query compares the columns that the others leave out.
	queries = append(queries[fleetViews:], `select job, rank, count(*), count(distinct thread), count(distinct stream), count(graph), count(step), min(pid), sum(start_ns)
from calls group by job, rank order by job, rank`)
	answers := map[string][][][]any{}
	for _, engine := range []string{"duckdb", "spark", "clickhouse"} {
		t.Run(engine, func(t *testing.T) {
			if _, err := exec.LookPath("java"); err != nil && engine == "spark" {
				t.Skip("Spark needs a Java runtime (Debian package default-jre-headless)")
			}
			got := peer[[][]any](t, engine, map[string]any{"folder": dir, "statements": append(views[engine], queries...)})
			answers[engine] = got[len(views[engine]):]
			for i, want := range answers["duckdb"] {
				if got := answers[engine][i]; !same(got, want) {
					t.Errorf("query %d:\n got %v\nwant %v\n%s", i, got, want, queries[i])
				}
			}
		})
	}
}

// same compares rows as sets, since queries leave the order of equal rows open. Numbers may differ by rounding.
func same(got, want [][]any) bool {
	count := map[string]int{}
	for i, rows := range [][][]any{got, want} {
		for _, row := range rows {
			var text strings.Builder
			for _, v := range row {
				if f, ok := v.(float64); ok && f != math.Trunc(f) {
					v = fmt.Sprintf("%.6g", f)
				}
				fmt.Fprintf(&text, "%v\t", v)
			}
			count[text.String()] += 1 - 2*i
		}
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return len(want) == len(got)
}
