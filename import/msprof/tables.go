package msprof

import (
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strings"

	_ "modernc.org/sqlite" // SQLite without cgo
)

// tables are those of a database, which is only read.
type tables struct {
	db      *sql.DB
	path    string
	columns map[string]map[string]bool // by table
}

func openTables(path string) (*tables, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	// A database that nobody writes needs no lock, and so no right to make files beside it. Changes in a log are not in it yet.
	query := url.Values{"mode": {"ro"}, "immutable": {"1"}}
	for _, log := range []string{"-wal", "-journal"} {
		if st, err := os.Stat(path + log); err == nil && st.Size() > 0 {
			query.Del("immutable")
		}
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &tables{db: db, path: path, columns: map[string]map[string]bool{}}
	if err := t.describe(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: no sound SQLite database: %w", path, err), db.Close())
	}
	return t, nil
}

func (t *tables) describe() error {
	rows, err := t.db.Query(`select m.name, c.name from sqlite_schema m, pragma_table_info(m.name) c where m.type = 'table'`)
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
// error there are no more.
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
		rows, err := t.db.Query("select " + strings.Join(terms, ", ") + " from " + table)
		if err != nil {
			yield(nil, fmt.Errorf("%s: table %s: %w", t.path, table, err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			err := rows.Scan(into...)
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

// count is the number of rows of a table, 0 where there is none.
func (t *tables) count(table string) (n int, err error) {
	if !t.has(table) {
		return 0, nil
	}
	if err := t.db.QueryRow("select count(*) from " + table).Scan(&n); err != nil {
		return 0, fmt.Errorf("%s: table %s: %w", t.path, table, err)
	}
	return n, nil
}
