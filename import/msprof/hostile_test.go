package msprof_test

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/import/msprof"
)

// refuses checks that a profile is refused with an error that contains want, and that no trace is written.
func refuses(t *testing.T, path string, want ...string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.aclt")
	p, err := msprof.Find(path)
	if err == nil {
		_, err = msprof.Import(p, acl.Model, out)
	}
	if err == nil {
		t.Errorf("%s is imported", path)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v; want %q", path, err, w)
		}
	}
	if _, err := os.Lstat(out); err == nil {
		t.Errorf("%s left a trace", path)
	}
}

// Regression: a pipe in a profile blocked the import forever, and a device file filled the memory.
func TestImportReadsOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"trace_view.json", "kernel_details.csv", "msprof_1.db"} {
		pipe, device := filepath.Join(dir, name), filepath.Join(t.TempDir(), name)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Skip(err)
		}
		if err := os.Symlink("/dev/zero", device); err != nil {
			t.Fatal(err)
		}
		refuses(t, pipe, pipe+" is not a regular file")
		refuses(t, device, device+" is not a regular file")
	}
	refuses(t, dir, "is not a regular file") // the folder with them
	for _, suffix := range []string{"-wal", "-journal", "-shm"} {
		path := filepath.Join(t.TempDir(), "msprof_1.db")
		database(t, path, profileSQL(t))
		if err := syscall.Mkfifo(path+suffix, 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(t, path, path+suffix+" is not a regular file")
	}
}

// Compressed files and deeply nested values are refused with a remedy. Memory stays below the file size.
func TestImportRefusesBombsOfText(t *testing.T) {
	const deep = 4 << 20
	for name, c := range map[string]struct{ text, want string }{
		"a/trace_view.json":    {"\x1f\x8b\x08", ":1:1: it is compressed by gzip: unpack it first"},
		"a/kernel_details.csv": {"\x1f\x8b\x08", ":1:1: it is compressed by gzip: unpack it first"},
		"a/msprof_1.db":        {"\x1f\x8b\x08", ":1:1: it is compressed by gzip: unpack it first"},
		"trace_view.json.gz":   {"\x1f\x8b\x08", ":1:1: it is compressed by gzip: unpack it first"},
		"b/trace_view.json":    {strings.Repeat("[", deep), "nested more than 10,000 levels deep"},
		"c/trace_view.json":    {`[{"args":` + strings.Repeat(`{"a":`, deep), "nested more than 10,000 levels deep"},
		"d/trace_view.json":    {`{"metadata":` + strings.Repeat("[", deep), "nested more than 10,000 levels deep"},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(t, path, path+":1:", c.want)
	}
}

// Regression: a database schema is a program. Endless views, computed columns and default values produced unlimited
// rows and text.
func TestImportRunsNoSchema(t *testing.T) {
	const endless = "with recursive n(i) as (select 1 union all select i+1 from n) select i as startNs, i as endNs, 1 as taskType from n"
	asTable := func(name, sql string) string {
		return fmt.Sprintf("pragma writable_schema=on; update sqlite_schema set type='table', rootpage=0, sql='%s' where name='%s';", strings.ReplaceAll(sql, "'", "''"), name)
	}
	for name, c := range map[string]struct{ sql, want string }{
		"a view":                      {"drop table TASK; drop table CANN_API; create view TASK as " + endless, "none of a profile"},
		"a view that says to be none": {"drop table TASK; drop table CANN_API; create view TASK as " + endless + "; " + asTable("TASK", "create view TASK as "+endless), "database"},
		"a computed column":           {"drop table STRING_IDS; create table STRING_IDS (id integer primary key, value text as (hex(zeroblob(400000000))))", "none of a profile"},
		"a long default": {"drop table STRING_IDS; create table STRING_IDS (id integer primary key); " +
			"with recursive n(i) as (select 1 union all select i+1 from n limit 20000) insert into STRING_IDS select i from n; " +
			"alter table STRING_IDS add column value text default '" + strings.Repeat("x", 500_000) + "'", "table STRING_IDS: row "},
	} {
		path := filepath.Join(t.TempDir(), "msprof_1.db")
		database(t, path, profileSQL(t))
		database(t, path, c.sql)
		t.Run(name, func(t *testing.T) { refuses(t, path, path, c.want) })
	}
	// Triggers and other table kinds are ignored.
	path := filepath.Join(t.TempDir(), "msprof_1.db")
	database(t, path, profileSQL(t)+"create trigger t after insert on TASK begin select load_extension('x'); end; drop table if exists LLC; create virtual table LLC using fts5(x); insert into LLC values ('a');")
	p, err := msprof.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := msprof.Import(p, acl.Model, filepath.Join(t.TempDir(), "out.aclt"))
	if err != nil || rep.Calls != 6 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// Regression: repeated links to one page gave a 60 KB file more than 200 million rows.
func TestImportBoundsRows(t *testing.T) {
	for table, want := range map[string]string{"TASK": "table TASK: row ", "LLC": ""} {
		path := filepath.Join(t.TempDir(), "msprof_1.db")
		database(t, path, profileSQL(t)+"create table if not exists LLC (x); insert into LLC values (1); create table pad (x); insert into pad values (zeroblob(40000));")
		root := crossLink(t, path, table)
		if root == 0 {
			t.Fatalf("no table %s", table)
		}
		if want != "" {
			refuses(t, path, path, want, "it is damaged, export the profile again")
			continue
		}
		p, err := msprof.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := msprof.Import(p, acl.Model, filepath.Join(t.TempDir(), "out.aclt"))
		if err != nil || rep.Left["value of counters"] > 100_000 {
			t.Errorf("%+v, %v", rep, err)
		}
	}
}

// crossLink makes a one-page table's root page point to a data page many times. It uses the file's last pages.
func crossLink(t *testing.T, path, table string) (root int) {
	t.Helper()
	root = rootPage(t, path, table)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := int(binary.BigEndian.Uint16(b[16:]))
	page := func(n int) []byte { return b[(n-1)*size : n*size] }
	last := len(b) / size
	copy(page(last), page(root))
	for i, at := range []int{last - 1, last - 2, root} {
		child := last
		if i > 0 {
			child = []int{0, last - 1, last - 2}[i]
		}
		p := page(at)
		clear(p)
		const cell = 5
		n := (size - 12) / (cell + 2)
		p[0] = 5
		binary.BigEndian.PutUint16(p[3:], uint16(n))
		binary.BigEndian.PutUint16(p[5:], uint16(size-n*cell))
		binary.BigEndian.PutUint32(p[8:], uint32(child))
		for k := range n {
			off := size - (k+1)*cell
			binary.BigEndian.PutUint16(p[12+2*k:], uint16(off))
			binary.BigEndian.PutUint32(p[off:], uint32(child))
			p[off+4] = byte(min(k, 127))
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func rootPage(t *testing.T, path, table string) (root int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("select rootpage from sqlite_schema where name = ?", table).Scan(&root); err != nil {
		t.Fatal(err)
	}
	return root
}
