package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	pq "github.com/parquet-go/parquet-go/format"

	"github.com/acltrace/acltrace/format"
)

// A table writes one file, a row group at a time. Its schema, its encodings and its metadata come from parquet-go; what it does itself is to take values
// column by column, where the writer of that library asks a map for each string and each small number: that took four fifths of an export.
type table struct {
	f       io.WriteCloser
	offset  int64
	meta    pq.FileMetaData
	columns []*column
	rows    int // of the row group
	n       int // of the file
	codec   compress.Codec
	plain   []byte // a page before it is compressed
	packed  []byte
	levels  []byte
}

// A column is one of a table, with the values that the row group has so far.
type column struct {
	meta     pq.ColumnMetaData // what does not change
	optional bool
	has      []byte // of an optional column: 1 for each row with a value
	numbers  []int64
	indexes  []int32 // into one of the dictionaries, where there is one
	texts    *dictionary[string]
	values   *dictionary[int64]
	flags    []byte
	all      *string // the text of all rows, where they have one
	of       *column // it has the numbers of another column
	plus     int64   // and this
}

// fill gives a column its values that follow from something else.
func (c *column) fill(rows int) {
	switch {
	case c.all != nil:
		c.indexes = append(c.indexes, make([]int32, rows)...)
		c.texts.index(*c.all)
	case c.of != nil:
		for _, v := range c.of.numbers {
			c.numbers = append(c.numbers, v+c.plus)
		}
	}
}

// groupRows is how many rows a row group has.
const groupRows = 1 << 17

// fewRows is how many rows make it likely that there are many.
const fewRows = 1 << 12

const magic = "PAR1"

func newTable[T any](create func(string) (io.WriteCloser, error), name string, r *format.Reader) (*table, error) {
	f, err := create(name)
	if err != nil {
		return nil, err
	}
	// An empty file has all but the rows.
	m := r.Meta()
	var empty bytes.Buffer
	w := parquet.NewGenericWriter[T](&empty, parquet.CreatedBy("acltrace", "", ""),
		parquet.KeyValueMetadata("acltrace.recording", m.UUID), parquet.KeyValueMetadata("acltrace.host", valid(m.Host)),
		parquet.KeyValueMetadata("acltrace.argv", valid(strings.Join(m.Argv, " "))), parquet.KeyValueMetadata("acltrace.start_wall_ns", strconv.FormatInt(m.StartWall, 10)),
		parquet.KeyValueMetadata("acltrace.simulated", strconv.FormatBool(m.Simulated)), parquet.KeyValueMetadata("acltrace.complete", strconv.FormatBool(r.Complete())),
		parquet.KeyValueMetadata("acltrace.calls_lost", strconv.FormatUint(lost(r), 10)))
	if err := w.Close(); err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(bytes.NewReader(empty.Bytes()), int64(empty.Len()))
	if err != nil {
		return nil, err
	}
	t := &table{f: f, meta: *file.Metadata(), codec: &zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}}
	for _, field := range w.Schema().Fields() {
		c := &column{optional: field.Optional(), meta: pq.ColumnMetaData{Type: pq.Type(field.Type().Kind()), PathInSchema: []string{field.Name()}, Codec: t.codec.CompressionCodec()}}
		encoding := pq.Plain
		if e := field.Encoding(); e != nil {
			encoding = e.Encoding()
		} else if c.meta.Type == pq.Int64 {
			encoding = pq.DeltaBinaryPacked // which a tag can't say of a number that may be null
		}
		c.meta.Encoding = []pq.Encoding{encoding}
		if encoding == pq.RLEDictionary {
			c.meta.Encoding = append(c.meta.Encoding, pq.Plain)
			if c.meta.Type == pq.ByteArray {
				c.texts = newDictionary(func(s string) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.StringData(s)))) })
			} else {
				c.values = newDictionary(func(v int64) uint64 { return uint64(v) })
			}
		}
		if c.optional {
			c.meta.Encoding = append(c.meta.Encoding, pq.RLE)
		}
		t.columns = append(t.columns, c)
	}
	return t, t.write([]byte(magic))
}

func lost(r *format.Reader) (n uint64) {
	for _, g := range r.Gaps() {
		n += g.Calls
	}
	return n
}

// column returns the column of a name, which the table must have.
func (t *table) column(name string) *column {
	return t.columns[slices.IndexFunc(t.columns, func(c *column) bool { return c.meta.PathInSchema[0] == name })]
}

// next ends a row, for which each column has got a value.
func (t *table) next() error {
	t.n++
	switch t.rows++; t.rows {
	case fewRows:
		for _, c := range t.columns {
			c.numbers, c.indexes, c.has, c.flags = room(c.numbers), room(c.indexes), room(c.has), room(c.flags)
		}
	case groupRows:
		return t.flush()
	}
	return nil
}

// room gives a column that has some values room for all of a row group, so that it does not grow step by step.
func room[T any](s []T) []T {
	if len(s) == 0 {
		return s
	}
	return slices.Grow(s, groupRows-len(s))
}

func (c *column) null() { c.has = append(c.has, 0) }

func (c *column) number(v int64) {
	if c.optional {
		c.has = append(c.has, 1)
	}
	if c.values != nil {
		c.indexes = append(c.indexes, c.values.index(v))
	} else {
		c.numbers = append(c.numbers, v)
	}
}

func (c *column) text(s string) {
	if c.optional {
		c.has = append(c.has, 1)
	}
	c.indexes = append(c.indexes, c.texts.index(s))
}

// name is text, or null for an empty one.
func (c *column) name(s string) {
	if s == "" {
		c.null()
	} else {
		c.text(s)
	}
}

func (c *column) flag(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	c.flags = append(c.flags, b)
}

// rows is how many values the column has got, nulls counted.
func (c *column) rows() int {
	if c.optional {
		return len(c.has)
	}
	return len(c.numbers) + len(c.indexes) + len(c.flags)
}

// A dictionary numbers the values of a row group.
type dictionary[T cmp.Ordered] struct {
	list   []T
	by     map[T]int32
	slot   func(T) uint64 // of what is looked up at once: texts are the same objects again and again
	recent [64]struct {
		v  T
		at int32 // index + 1
	}
}

func newDictionary[T cmp.Ordered](slot func(T) uint64) *dictionary[T] {
	return &dictionary[T]{by: map[T]int32{}, slot: slot}
}

func (d *dictionary[T]) index(v T) int32 {
	r := &d.recent[d.slot(v)*0x9e3779b97f4a7c15>>58]
	if r.at == 0 || r.v != v {
		i, ok := d.by[v]
		if !ok {
			i = int32(len(d.list))
			d.by[v] = i
			d.list = append(d.list, v)
		}
		r.v, r.at = v, i+1
	}
	return r.at - 1
}

func (d *dictionary[T]) reset() {
	clear(d.by)
	clear(d.list)
	d.list = d.list[:0]
	clear(d.recent[:])
}

func (t *table) write(b []byte) error {
	n, err := t.f.Write(b)
	t.offset += int64(n)
	return err
}

// flush writes the row group.
func (t *table) flush() error {
	if t.rows == 0 {
		return nil
	}
	group := pq.RowGroup{NumRows: int64(t.rows), FileOffset: t.offset, Ordinal: int16(min(len(t.meta.RowGroups), 1<<15-1))}
	for _, c := range t.columns {
		c.fill(t.rows)
	}
	for _, c := range t.columns {
		if c.rows() != t.rows {
			return fmt.Errorf("column %s has %d of %d values", c.meta.PathInSchema[0], c.rows(), t.rows)
		}
		meta := c.meta
		if err := t.chunk(c, &meta); err != nil {
			return fmt.Errorf("column %s: %w", meta.PathInSchema[0], err)
		}
		group.Columns = append(group.Columns, pq.ColumnChunk{MetaData: meta})
		group.TotalByteSize += meta.TotalUncompressedSize
		group.TotalCompressedSize += meta.TotalCompressedSize
		c.reset()
	}
	t.meta.NumRows += group.NumRows
	t.meta.RowGroups = append(t.meta.RowGroups, group)
	t.rows = 0
	return nil
}

func (c *column) reset() {
	c.has, c.numbers, c.indexes, c.flags = c.has[:0], c.numbers[:0], c.indexes[:0], c.flags[:0]
	if c.texts != nil {
		c.texts.reset()
	}
	if c.values != nil {
		c.values.reset()
	}
}

// chunk writes a column of the row group: its dictionary, and one page.
func (t *table) chunk(c *column, meta *pq.ColumnMetaData) error {
	wide := c.meta.Type != pq.Int32
	if n, encode := c.dictionary(wide); encode != nil {
		meta.DictionaryPageOffset = t.offset
		t.plain = encode(t.plain[:0])
		err := t.page(nil, meta, &pq.PageHeader{Type: pq.DictionaryPage, DictionaryPageHeader: thrift.New(pq.DictionaryPageHeader{NumValues: int32(n), Encoding: pq.Plain})})
		if err != nil {
			return err
		}
	}
	var err error
	var nulls int
	t.levels = t.levels[:0]
	if c.optional {
		for _, has := range c.has {
			nulls += 1 - int(has)
		}
		if t.levels, err = (&rle.Encoding{BitWidth: 1}).EncodeLevels(t.levels, c.has); err != nil {
			return err
		}
	}
	switch meta.Encoding[0] {
	case pq.RLEDictionary:
		t.plain, err = (&rle.DictionaryEncoding{}).EncodeInt32(t.plain[:0], c.indexes)
	case pq.DeltaBinaryPacked:
		t.plain, err = (&delta.BinaryPackedEncoding{}).EncodeInt64(t.plain[:0], c.numbers)
	default:
		t.plain = append(numbers(t.plain[:0], c.numbers, wide), bits(c.flags)...)
	}
	if err != nil {
		return err
	}
	meta.NumValues, meta.DataPageOffset = int64(t.rows), t.offset
	meta.Statistics = c.statistics(wide)
	meta.Statistics.NullCount = int64(nulls)
	return t.page(t.levels, meta, &pq.PageHeader{Type: pq.DataPageV2, DataPageHeaderV2: thrift.New(pq.DataPageHeaderV2{NumValues: int32(t.rows), NumNulls: int32(nulls), NumRows: int32(t.rows),
		Encoding: meta.Encoding[0], DefinitionLevelsByteLength: int32(len(t.levels)), IsCompressed: thrift.New(true)})})
}

// page writes what is in t.plain, behind levels, as a page.
func (t *table) page(levels []byte, meta *pq.ColumnMetaData, h *pq.PageHeader) error {
	var err error
	if t.packed, err = t.codec.Encode(t.packed, t.plain); err != nil {
		return err
	}
	h.UncompressedPageSize, h.CompressedPageSize = int32(len(levels)+len(t.plain)), int32(len(levels)+len(t.packed))
	head, err := thrift.Marshal(new(thrift.CompactProtocol), h)
	if err != nil {
		return err
	}
	meta.TotalUncompressedSize += int64(len(head)) + int64(h.UncompressedPageSize)
	meta.TotalCompressedSize += int64(len(head)) + int64(h.CompressedPageSize)
	for _, b := range [][]byte{head, levels, t.packed} {
		if err := t.write(b); err != nil {
			return err
		}
	}
	return nil
}

// dictionary returns how many values a dictionary has and what encodes them, nil where there is none. That of a column of nulls is empty, and is
// there all the same: DuckDB wants it.
func (c *column) dictionary(wide bool) (int, func([]byte) []byte) {
	switch {
	case c.texts != nil:
		return len(c.texts.list), func(b []byte) []byte {
			for _, s := range c.texts.list {
				s = valid(s)
				b = append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
			}
			return b
		}
	case c.values != nil:
		return len(c.values.list), func(b []byte) []byte { return numbers(b, c.values.list, wide) }
	}
	return 0, nil
}

// numbers encodes numbers of 64 bits, or 32.
func numbers(b []byte, list []int64, wide bool) []byte {
	for _, v := range list {
		if wide {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		} else {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
	}
	return b
}

// bits has a bit for each flag.
func bits(flags []byte) []byte {
	b := make([]byte, (len(flags)+7)/8)
	for i, v := range flags {
		b[i/8] |= v << (i % 8)
	}
	return b
}

// maxBound is the length up to which texts are bounds of a column.
const maxBound = 64

// statistics are the bounds of a column's values, where a reader can use them to leave the row group out.
func (c *column) statistics(wide bool) (s pq.Statistics) {
	list := c.numbers
	switch {
	case c.texts != nil && len(c.texts.list) > 0:
		lo, hi := valid(slices.Min(c.texts.list)), valid(slices.Max(c.texts.list))
		if len(lo) <= maxBound && len(hi) <= maxBound {
			s.MinValue, s.MaxValue = []byte(lo), []byte(hi)
		}
		return s
	case c.values != nil:
		list = c.values.list
	}
	if len(list) > 0 && (c.meta.Type == pq.Int32 || c.meta.Type == pq.Int64) {
		s.MinValue, s.MaxValue = numbers(nil, []int64{slices.Min(list)}, wide), numbers(nil, []int64{slices.Max(list)}, wide)
	}
	return s
}

// close writes what is left and the end of the file.
func (t *table) close() error {
	if err := t.flush(); err != nil {
		return err
	}
	foot, err := thrift.Marshal(new(thrift.CompactProtocol), &t.meta)
	if err != nil {
		return err
	}
	foot = append(binary.LittleEndian.AppendUint32(foot, uint32(len(foot))), magic...)
	return t.write(foot)
}
