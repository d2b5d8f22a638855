package msprof

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strings"
	"time"

	_ "modernc.org/sqlite" // SQLite without cgo
)

// tables are those of a database, which is only read. The database may be a stranger's: of its schema, which is a program, only the names
// of plain tables and of their stored columns count.
type tables struct {
	db      *sql.DB
	path    string
	columns map[string]map[string]bool // by table
	size    int64                      // of the database, with its log
	ctx     context.Context            // ends what takes longer than a database of this size does
	cancel  context.CancelFunc
}

// settings are those of each connection: functions of the schema may do nothing but compute, pages are checked, and SQLite has so much memory
// for all of them.
var settings = []string{"trusted_schema(0)", "query_only(1)", "cell_size_check(1)", "mmap_size(0)", "hard_heap_limit(268435456)"}

// Importing takes far less than so long.
const (
	timeForAny = 30 * time.Second
	timeForMiB = time.Second
)

func openTables(path string) (*tables, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	size := st.Size()
	// A database that nobody writes needs no lock, and so no right to make files beside it. Changes in a log are not in it yet.
	query := url.Values{"mode": {"ro"}, "immutable": {"1"}, "_pragma": settings}
	for _, suffix := range []string{"-wal", "-journal", "-shm"} {
		st, err := os.Lstat(path + suffix)
		if err != nil {
			continue
		}
		if !st.Mode().IsRegular() {
			return nil, fmt.Errorf("read profile: %s is not a regular file: move the database to a folder without it", path+suffix)
		}
		if suffix != "-shm" && st.Size() > 0 {
			query.Del("immutable")
			size += st.Size()
		}
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &tables{db: db, path: path, columns: map[string]map[string]bool{}, size: size}
	t.ctx, t.cancel = context.WithTimeout(context.Background(), timeForAny+time.Duration(size>>20)*timeForMiB)
	if err := t.describe(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: no sound SQLite database: %w", path, err), t.Close())
	}
	return t, nil
}

// Close closes the database.
func (t *tables) Close() error {
	t.cancel()
	return t.db.Close()
}

func (t *tables) describe() error {
	rows, err := t.db.QueryContext(t.ctx, `select l.name, c.name from pragma_table_list l, pragma_table_info(l.name, 'main') c where l.schema = 'main' and l.type = 'table'`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			return err
		}
		if t.columns[table] == nil {
			t.columns[table] = map[string]bool{}
		}
		t.columns[table][column] = true
	}
	return rows.Err()
}

// has reports whether there is a table, with these columns.
func (t *tables) has(table string, columns ...string) bool {
	known, ok := t.columns[table]
	for _, c := range columns {
		ok = ok && known[c]
	}
	return ok
}

// rows returns these columns of the rows of a table: int64, float64, string, []byte, or nil, which is also what a
// column has that is not there; no rows where there is no such table. A row is valid until the next one. Behind an
// error there are no more. A table that has more than its file has room for, as one in which pages are linked in circles or of which
// the schema makes up the values, is an error.
func (t *tables) rows(table string, columns ...string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		if !t.has(table) {
			return
		}
		terms := make([]string, len(columns))
		out, into := make([]any, len(columns)), make([]any, len(columns))
		for i, c := range columns {
			// Behind a sign a column has no declared type, by which the driver would turn numbers into times.
			terms[i] = "+" + c
			if !t.has(table, c) {
				terms[i] = "null"
			}
			into[i] = &out[i]
		}
		rows, err := t.db.QueryContext(t.ctx, "select "+strings.Join(terms, ", ")+" from "+table)
		if err != nil {
			yield(nil, fmt.Errorf("%s: table %s: %w", t.path, table, err))
			return
		}
		defer rows.Close()
		n, text := int64(0), int64(0)
		for rows.Next() {
			err := rows.Scan(into...)
			n++
			for _, v := range out {
				switch v := v.(type) {
				case string:
					text += int64(len(v))
				case []byte:
					text += int64(len(v))
				}
			}
			if err == nil && (n > t.most() || text > 2*t.size) { // text may be stored as UTF-16
				err = fmt.Errorf("row %d: the table has more than a file of %d bytes can hold: it is damaged, export the profile again", n, t.size)
			}
			if err != nil {
				yield(nil, fmt.Errorf("%s: table %s: %w", t.path, table, err))
				return
			}
			if !yield(out, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, fmt.Errorf("%s: table %s: %w", t.path, table, err))
		}
	}
}

// most is how many rows a table can have: SQLite stores each in at least six bytes of its own.
func (t *tables) most() int64 { return t.size / 6 }

// count is the number of rows of a table, 0 where there is none.
func (t *tables) count(table string) (n int, err error) {
	if !t.has(table) {
		return 0, nil
	}
	err = t.db.QueryRowContext(t.ctx, fmt.Sprintf("select count(*) from (select 1 from %s limit %d)", table, t.most())).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("%s: table %s: %w", t.path, table, err)
	}
	return n, nil
}
