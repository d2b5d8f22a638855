package msprof_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/import/msprof"
)

func database(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statements); err != nil {
		t.Fatal(err)
	}
}

func profileSQL(t *testing.T) string {
	t.Helper()
	sql, err := os.ReadFile("testdata/database.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(sql)
}

// A database and text exports from one profile give the same trace.
func TestDatabaseAndTextAreEqual(t *testing.T) {
	for _, name := range []string{"ascend_pytorch_profiler_0.db", "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler.db", "PROF_1/msprof_20260101120000.db"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		database(t, path, profileSQL(t))
		database(t, filepath.Join(filepath.Dir(path), "analysis.db"), "create table CommAnalyzerTime (step text);")
		p, err := msprof.Find(dir)
		if err != nil || p.Database != path {
			t.Fatalf("%+v, %v", p, err)
		}
		rep, tl := imported(t, p)
		if got, want := fmt.Sprintf("%+v", *rep), "{Calls:6 Kernels:4 Copies:1 Tasks:6 Collectives:1 Steps:1 Operators:1 Marks:0 Shapes:1 Untied:2 Left:map[task counted by its parts:1 "+
			"task of the scheduler: PROFILING_ENABLE:1 task of the scheduler: Write Value:1 value of counters:1]}"; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		text, err := msprof.Find("testdata")
		if err != nil {
			t.Fatal(err)
		}
		_, wanted := imported(t, text)
		if got, want := tasks(tl), tasks(wanted); !slices.Equal(got, want) {
			t.Errorf("tasks\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		var got, want []string
		for i := range tl.Calls {
			got = append(got, fmt.Sprint(tl.Calls[i].Name, tl.Calls[i].Start, tl.Calls[i].End))
		}
		for i := range wanted.Calls {
			want = append(want, fmt.Sprint(wanted.Calls[i].Name, wanted.Calls[i].Start, wanted.Calls[i].End))
		}
		if !slices.Equal(got, want) {
			t.Errorf("calls\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if tl.Reader.Processes()[0].PID != 901 || tl.Reader.Meta().StartWall != wanted.Reader.Meta().StartWall {
			t.Errorf("process %+v, beginning at %d", tl.Reader.Processes()[0], tl.Reader.Meta().StartWall)
		}
		profileRanges(t, tl)
	}
}

// Ranges and moments of mstx are those of the program.
func TestDatabaseHasMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "msprof_1.db")
	database(t, path, profileSQL(t)+`INSERT INTO MSTX_EVENTS VALUES (1700000000000050000, 1700000000000060000, 2, 1, 0, 23, (901 << 32) | 905, (901 << 32) | 905, 0, 4294967295),
		(1700000000000070000, 1700000000000070000, 0, 0, 0, 23, (901 << 32) | 905, (901 << 32) | 905, 0, 4294967295);`)
	rep, tl := imported(t, &msprof.Profile{Database: path})
	var got []string
	for _, r := range tl.Ranges {
		if r.Name == "load" {
			got = append(got, fmt.Sprint(r.From, r.To, tl.Reader.Threads()[r.Thread].TID))
		}
	}
	if want := []string{"49750 59750 905", "69750 69750 905"}; !slices.Equal(got, want) || rep.Marks != 2 {
		t.Errorf("%q, want %q, %+v", got, want, rep)
	}
}

// Rows that are still in the write-ahead log are read too.
func TestDatabaseBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "msprof_1.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("pragma journal_mode = wal; pragma wal_autocheckpoint = 0;" + profileSQL(t)); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path + "-wal"); err != nil || st.Size() == 0 {
		t.Fatalf("no log: %v", err)
	}
	if rep, _ := imported(t, &msprof.Profile{Database: path}); rep.Kernels != 4 || rep.Calls != 6 {
		t.Errorf("%+v", rep)
	}
}

// A cut or overwritten file is an error or yields fewer rows, without a crash.
func TestDamagedDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "msprof_1.db")
	database(t, path, profileSQL(t))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for at := 0; at < len(whole); at += 511 {
		damaged := append(slices.Clone(whole[:at]), make([]byte, min(64, len(whole)-at))...)
		if at%2 == 0 {
			damaged = append(damaged, whole[min(at+64, len(whole)):]...)
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := msprof.Import(&msprof.Profile{Database: path}, acl.Model, filepath.Join(t.TempDir(), "x.aclt")); err != nil {
			refused++
			if !strings.Contains(err.Error(), path) {
				t.Errorf("at %d: %v", at, err)
			}
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}

// Older profilers call blocks a dim and have neither copies nor steps. Newer ones may add columns.
func TestDatabaseOfOtherProfilers(t *testing.T) {
	sql := strings.NewReplacer("blockNum INTEGER", "blockDim INTEGER").Replace(profileSQL(t)) +
		"drop table MEMCPY_INFO; drop table STEP_TIME; drop table COMMUNICATION_OP; alter table TASK add column later INTEGER default 3; vacuum;"
	path := filepath.Join(t.TempDir(), "msprof_1.db")
	database(t, path, sql)
	rep, tl := imported(t, &msprof.Profile{Database: path})
	if rep.Kernels != 3 || rep.Copies != 1 || rep.Steps != 0 || rep.Collectives != 0 {
		t.Errorf("%+v", rep)
	}
	if got := tasks(tl); !strings.Contains(got[1], "MatMul on 2:41 20 blocks") || !strings.Contains(got[0], "copy DtoD on 2:40 0 blocks 0 bytes") {
		t.Errorf("%q", got)
	}
}

func TestBadDatabase(t *testing.T) {
	for _, c := range []struct{ sql, want string }{
		{"create table t (a);", "p.db: a database, but none of a profile: it has no tables STRING_IDS and TASK or CANN_API"},
		{"create table STRING_IDS (id integer primary key, value text); create table TASK (startNs, endNs, taskType);", "no call and no task in it"},
		{profileSQL(t) + "update TASK set endNs = 5 where taskId = 42;", "p.db: table TASK, row 3: it is from 1700000000000241000 to 5, which are no times"},
		{profileSQL(t) + "update CANN_API set startNs = 'soon' where connectionId = 2;", `p.db: table CANN_API, row 2: it is from "soon" to 1700000000000150000, which are no times`},
	} {
		dir := t.TempDir()
		path, out := filepath.Join(dir, "p.db"), filepath.Join(dir, "x.aclt")
		database(t, path, c.sql)
		p, err := msprof.Find(path)
		if err == nil {
			_, err = msprof.Import(p, acl.Model, out)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q left a trace behind", c.want)
		}
	}
}

// For real databases, if available, the trace equals the counts and sums that SQLite computes.
func TestRealDatabases(t *testing.T) {
	dir := os.Getenv("ACLTRACE_PROFILES")
	if dir == "" {
		t.Skip("ACLTRACE_PROFILES names no folder with real profiles")
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.db"))
	for _, path := range found {
		db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&immutable=1")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var calls, callsNS, n, ns, ops, opsNS int64
		for _, q := range []struct {
			statement string
			n, ns     *int64
		}{
			{`select count(*), ifnull(sum(endNs - startNs), 0) from CANN_API`, &calls, &callsNS},
			{`select count(*), ifnull(sum(endNs - startNs), 0) from TASK t join STRING_IDS s on s.id = t.taskType
				where s.value not like 'Write Value%' and s.value not like 'PLACE_HOLDER%' and s.value not like 'PROFILING%' and not (t.contextId = 4294967295
				and exists (select 1 from TASK p where p.deviceId = t.deviceId and p.streamId = t.streamId and p.taskId = t.taskId and p.contextId <> 4294967295))`, &n, &ns},
			{`select count(*), ifnull(sum(endNs - startNs), 0) from COMMUNICATION_OP`, &ops, &opsNS},
		} {
			if err := db.QueryRow(q.statement).Scan(q.n, q.ns); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		rep, tl := imported(t, &msprof.Profile{Database: path})
		for i := range tl.Calls {
			if strings.Contains(tl.Calls[i].Name, "@") {
				calls--
				callsNS -= tl.Calls[i].End - tl.Calls[i].Start
			}
		}
		for i := range tl.Tasks {
			n--
			ns -= tl.Tasks[i].To - tl.Tasks[i].From
		}
		if calls != 0 || callsNS != 0 || n+ops != 0 || ns+opsNS != 0 || rep.Collectives != int(ops) {
			t.Errorf("%s: the profile has %d calls and %d ns, %d tasks and %d ns more", path, calls, callsNS, n+ops, ns+opsNS)
		}
	}
}
