package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	mathbits "math/bits"
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

// A table writes one file, a row group at a time. Its schema, its encodings and its metadata come from parquet-go; what
// it does itself is to take values column by column, where the writer of that library asks a map for each string and
// each small number: that took four fifths of an export.
type table struct {
	f       io.WriteCloser
	offset  int64
	meta    pq.FileMetaData
	groups  []byte // the row groups so far as the footer has them: as structures they would take ten times as much
	ngroups int
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
	has      list[byte] // of an optional column: 1 for each row with a value
	numbers  list[int64]
	indexes  list[int32] // into one of the dictionaries, where there is one
	texts    *dictionary[string]
	values   *dictionary[int64]
	flags    list[byte]
	all      *string // the text of all rows, where they have one
	of       *column // it has the numbers of another column, of which none is null
	plus     int64   // and this
	deltas   []byte  // of numbers, once they are encoded
}

// A list is as long as the row group so far.
type list[T any] []T

// more makes the list longer and returns the new part, which holds anything.
func (l *list[T]) more(n int) []T {
	at := len(*l)
	*l = slices.Grow(*l, n)[:at+n]
	return (*l)[at:]
}

// zeros is more, of zeros.
func (l *list[T]) zeros(n int) []T {
	part := l.more(n)
	clear(part)
	return part
}

// encoded returns the numbers as DELTA_BINARY_PACKED.
func (c *column) encoded() ([]byte, error) {
	if len(c.deltas) > 0 {
		return c.deltas, nil
	}
	var err error
	if c.of == nil {
		c.deltas, err = (&delta.BinaryPackedEncoding{}).EncodeInt64(c.deltas, c.numbers)
		return c.deltas, err
	}
	of, err := c.of.encoded()
	if err != nil {
		return nil, err
	}
	// What is a sum with the same number differs in its first value alone, which comes behind three numbers of the format.
	at := 0
	for range 3 {
		_, n := binary.Uvarint(of[at:])
		at += n
	}
	first, n := binary.Varint(of[at:])
	c.deltas = append(binary.AppendVarint(append(c.deltas, of[:at]...), first+c.plus), of[at+n:]...)
	return c.deltas, nil
}

// groupRows is how many rows a row group has. Tests have fewer.
var groupRows = 1 << 17

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

// added ends rows, for which each column has got its values.
func (t *table) added(rows int) error {
	before := t.rows
	t.n, t.rows = t.n+rows, t.rows+rows
	if before < fewRows && t.rows >= fewRows {
		for _, c := range t.columns {
			c.numbers, c.indexes, c.has, c.flags = room(c.numbers), room(c.indexes), room(c.has), room(c.flags)
		}
	}
	if t.rows+batchRows > groupRows {
		return t.flush()
	}
	return nil
}

// room gives a column that has some values room for all of a row group, so that it does not grow step by step.
func room[T any](s list[T]) list[T] {
	if len(s) == 0 {
		return s
	}
	return slices.Grow(s, groupRows-len(s))
}

// rows is how many values the column has got, nulls counted.
func (c *column) rows() int {
	if c.optional {
		return len(c.has)
	}
	if c.of != nil {
		return len(c.of.numbers)
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
	group := pq.RowGroup{NumRows: int64(t.rows), FileOffset: t.offset, Ordinal: int16(min(t.ngroups, 1<<15-1))}
	for _, c := range t.columns {
		if c.all != nil {
			c.indexes.zeros(t.rows)
			c.texts.index(*c.all)
		}
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
	}
	for _, c := range t.columns {
		c.reset()
	}
	t.meta.NumRows += group.NumRows
	encoded, err := thrift.Marshal(new(thrift.CompactProtocol), &group)
	t.groups, t.ngroups, t.rows = append(t.groups, encoded...), t.ngroups+1, 0
	return err
}

func (c *column) reset() {
	c.has, c.numbers, c.indexes, c.flags, c.deltas = c.has[:0], c.numbers[:0], c.indexes[:0], c.flags[:0], c.deltas[:0]
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
		nulls = bytes.Count(c.has, []byte{0})
		if t.levels, err = (&rle.Encoding{BitWidth: 1}).EncodeLevels(t.levels, c.has); err != nil {
			return err
		}
	}
	switch meta.Encoding[0] {
	case pq.RLEDictionary:
		err = t.encodeIndexes(c)
	case pq.DeltaBinaryPacked:
		var deltas []byte
		deltas, err = c.encoded()
		t.plain = append(t.plain[:0], deltas...)
	default:
		t.plain = bits(numbers(t.plain[:0], c.numbers, wide), c.flags)
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

// encodeIndexes encodes places in the dictionary, whose length tells how many bits they need.
func (t *table) encodeIndexes(c *column) (err error) {
	n := 0
	if c.texts != nil {
		n = len(c.texts.list)
	} else {
		n = len(c.values.list)
	}
	width := mathbits.Len(uint(max(n-1, 0)))
	t.packed, err = (&rle.Encoding{BitWidth: width}).EncodeInt32(t.packed, c.indexes)
	t.plain = append(append(t.plain[:0], byte(width)), t.packed...)
	return err
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

// dictionary returns how many values a dictionary has and what encodes them, nil where there is none. That of a column
// of nulls is empty, and is there all the same: DuckDB wants it.
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

// bits adds a bit for each flag.
func bits(b, flags []byte) []byte {
	for ; len(flags) >= 8; flags = flags[8:] {
		// The product has the lowest bits of the eight bytes in its highest byte.
		b = append(b, byte(binary.LittleEndian.Uint64(flags)*0x0102040810204080>>56))
	}
	if len(flags) > 0 {
		last := byte(0)
		for i, v := range flags {
			last |= v << i
		}
		b = append(b, last)
	}
	return b
}

// maxBound is the length up to which texts are bounds of a column.
const maxBound = 64

// statistics are the bounds of a column's values, where a reader can use them to leave the row group out.
func (c *column) statistics(wide bool) (s pq.Statistics) {
	list, plus := c.numbers, int64(0)
	switch {
	case c.texts != nil && len(c.texts.list) > 0:
		lo, hi := valid(slices.Min(c.texts.list)), valid(slices.Max(c.texts.list))
		if len(lo) <= maxBound && len(hi) <= maxBound {
			s.MinValue, s.MaxValue = []byte(lo), []byte(hi)
		}
		return s
	case c.values != nil:
		list = c.values.list
	case c.of != nil:
		list, plus = c.of.numbers, c.plus
	}
	if len(list) > 0 && (c.meta.Type == pq.Int32 || c.meta.Type == pq.Int64) {
		lo, hi := list[0], list[0]
		for _, v := range list {
			lo, hi = min(lo, v), max(hi, v)
		}
		s.MinValue, s.MaxValue = numbers(nil, []int64{lo + plus}, wide), numbers(nil, []int64{hi + plus}, wide)
	}
	return s
}

// close writes what is left and the end of the file.
func (t *table) close() error {
	if err := t.flush(); err != nil {
		return err
	}
	foot, err := t.footer()
	if err != nil {
		return err
	}
	foot = append(binary.LittleEndian.AppendUint32(foot, uint32(len(foot))), magic...)
	return t.write(foot)
}

// What FileMetaData has before its row groups and behind them. In Thrift's compact protocol a field has its distance
// from the one before it, so that the fields behind are numbered from the row groups.
type (
	beforeGroups struct {
		Version int32                          `thrift:"1,required"`
		Schema  thrift.Slice[pq.SchemaElement] `thrift:"2,required"`
		NumRows int64                          `thrift:"3,required"`
	}
	behindGroups struct {
		KeyValueMetadata thrift.Slice[pq.KeyValue]    `thrift:"1,optional"`
		CreatedBy        string                       `thrift:"2,optional"`
		ColumnOrders     thrift.Slice[pq.ColumnOrder] `thrift:"3,optional"`
	}
)

// footer encodes a FileMetaData with the row groups, which are encoded already.
func (t *table) footer() ([]byte, error) {
	m := &t.meta
	foot, err := thrift.Marshal(new(thrift.CompactProtocol), &beforeGroups{m.Version, m.Schema, m.NumRows})
	if err != nil {
		return nil, err
	}
	behind, err := thrift.Marshal(new(thrift.CompactProtocol), &behindGroups{m.KeyValueMetadata, m.CreatedBy, m.ColumnOrders})
	if err != nil {
		return nil, err
	}
	const list, structure = 9, 12
	foot = append(foot[:len(foot)-1], 1<<4|list) // in place of what ends a structure
	if t.ngroups < 15 {
		foot = append(foot, byte(t.ngroups)<<4|structure)
	} else {
		foot = binary.AppendUvarint(append(foot, 15<<4|structure), uint64(t.ngroups))
	}
	return append(append(foot, t.groups...), behind...), nil
}
