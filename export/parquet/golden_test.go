package parquet

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// memory is a file in memory.
type memory struct{ bytes.Buffer }

func (*memory) Close() error { return nil }

// Tables show each kind of call and task. parquet-go's reader, which did not write them, reads them.
func TestEachKindOfCallIsShown(t *testing.T) {
	tl := testtrace.Rich(t)
	for _, x := range []struct {
		name string
		o    *Options
	}{
		{"parquet", nil},
		{"parquet --step 1", &Options{Select: &timeline.Selection{Steps: &human.Numbers{First: 1, Last: 1}}}},
	} {
		files := map[string]*memory{}
		res, err := Write(func(table string) (io.WriteCloser, error) {
			files[table] = &memory{}
			return files[table], nil
		}, tl.Reader, tl.Model, x.o)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		fmt.Fprintf(&text, "%+v\n", *res)
		for _, name := range Tables {
			show(t, &text, name, files[name].Bytes(), x.o == nil)
		}
		testenv.Golden(t, "rich.txtar", x.name, text.String())
	}
}

// show writes a table as text: its schema if wanted, the metadata of the first table, and the rows, with - for null and without the recording.
func show(t *testing.T, text *strings.Builder, name string, file []byte, schema bool) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(text, "\n%s: %d rows in %d groups\n", name, f.NumRows(), len(f.RowGroups()))
	if name == Tables[0] {
		for _, kv := range f.Metadata().KeyValueMetadata {
			fmt.Fprintf(text, "%s = %s\n", kv.Key, kv.Value)
		}
	}
	if schema {
		fmt.Fprintln(text, f.Schema())
	}
	r := parquet.NewReader(f)
	defer r.Close()
	rows := make([]parquet.Row, f.NumRows())
	if n, err := r.ReadRows(rows); n != len(rows) || err != nil && err != io.EOF {
		t.Fatal(n, err)
	}
	for _, row := range rows {
		if id := row[0].String(); id != testtrace.UUID {
			t.Errorf("%s: a row of recording %q", name, id)
		}
		for i, v := range row[1:] {
			cell := v.String()
			if v.IsNull() {
				cell = "-"
			} else if v.Kind() == parquet.ByteArray {
				cell = strconv.Quote(cell)
			}
			if i > 0 {
				text.WriteByte(' ')
			}
			text.WriteString(cell)
		}
		text.WriteByte('\n')
	}
}

// A table may have any number of row groups: the footer counts up to 14 of them in another way.
func TestManyGroups(t *testing.T) {
	defer func(n int) { groupRows = n }(groupRows)
	groupRows = 1
	for _, groups := range []int{1, 14, 15, 16} {
		tl := testtrace.Long(t, groups*batchRows)
		calls := &memory{}
		if _, err := Write(func(table string) (io.WriteCloser, error) {
			if table == Tables[0] {
				return calls, nil
			}
			return &memory{}, nil
		}, tl.Reader, tl.Model, nil); err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(calls.Bytes()), int64(calls.Len()))
		if err != nil {
			t.Fatalf("%d groups: %v", groups, err)
		}
		if len(f.RowGroups()) != groups || f.NumRows() != int64(len(tl.Calls)) {
			t.Errorf("%d rows in %d groups, want %d in %d", f.NumRows(), len(f.RowGroups()), len(tl.Calls), groups)
		}
	}
}
