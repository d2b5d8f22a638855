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

	"github.com/acltrace/acltrace/import/internal/events"
)

// tables are a read-only database. It may be untrusted, and its schema is a program: only names of plain tables and
// stored columns are used.
type tables struct {
	db      *sql.DB
	path    string
	columns map[string]map[string]bool // by table
	size    int64                      // database and log, in bytes
	ctx     context.Context            // ends queries that take too long for the database's size
	cancel  context.CancelFunc
}

// settings apply to each connection: no schema functions with side effects, checked pages, and one memory limit for all
// connections.
var settings = []string{"trusted_schema(0)", "query_only(1)", "cell_size_check(1)", "mmap_size(0)", "hard_heap_limit(268435456)"}

// Limits that a normal import stays far below.
const (
	timeForAny = 30 * time.Second
	timeForMiB = time.Second
)

func openTables(path string) (*tables, error) {
	f, err := events.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	size := st.Size()
	// Without a write-ahead log, open the database as immutable: it then needs no lock and no permission to create
	// files beside it.
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

// has reports whether a table exists with these columns.
func (t *tables) has(table string, columns ...string) bool {
	known, ok := t.columns[table]
	for _, c := range columns {
		ok = ok && known[c]
	}
	return ok
}

// rows returns the given columns for each row in a table: int64, float64, string, []byte or nil. A missing column is
// nil, and a missing table has no rows. A row is valid until the next one, and an error is the last item. A table with
// more rows or text than its file can hold is an error: its pages are linked in circles, or the schema computes values.
func (t *tables) rows(table string, columns ...string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		if !t.has(table) {
			return
		}
		terms := make([]string, len(columns))
		out, into := make([]any, len(columns)), make([]any, len(columns))
		for i, c := range columns {
			// A sign removes the column's declared type. Otherwise the driver would turn numbers into times.
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

// most returns the largest possible row count: SQLite stores each row in at least six bytes.
func (t *tables) most() int64 { return t.size / 6 }

// count returns a table's row count, 0 if it is missing.
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
