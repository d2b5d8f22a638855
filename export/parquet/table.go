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

// A table writes one file, a row group at a time. parquet-go provides the schema, encodings and metadata. This package
// collects values column by column. parquet-go's own writer makes a map lookup for each string and small number, which
// took four fifths of an export.
type table struct {
	f       io.WriteCloser
	offset  int64
	meta    pq.FileMetaData
	groups  []byte // row groups encoded for the footer; structs take ten times the memory
	ngroups int
	columns []*column
	rows    int // in the row group
	n       int // in the file
	codec   compress.Codec
	plain   []byte // page before compression
	packed  []byte
	levels  []byte
}

// A column holds the values in the current row group.
type column struct {
	meta     pq.ColumnMetaData // constant part
	optional bool
	has      list[byte] // optional columns only: 1 for each row with a value
	numbers  list[int64]
	indexes  list[int32] // into the dictionary, if any
	texts    *dictionary[string]
	values   *dictionary[int64]
	flags    list[byte]
	all      *string // one text for all rows, if set
	of       *column // the numbers are the microseconds of this column's nanoseconds, …
	plus     int64   // … which have passed since this moment
}

// A list grows with the row group.
type list[T any] []T

// more extends the list and returns the uninitialized new part.
func (l *list[T]) more(n int) []T {
	at := len(*l)
	*l = slices.Grow(*l, n)[:at+n]
	return (*l)[at:]
}

// zeros is more with zeros.
func (l *list[T]) zeros(n int) []T {
	part := l.more(n)
	clear(part)
	return part
}

// moments fills a column of microseconds from its column of nanoseconds.
func (c *column) moments() {
	to := c.numbers.more(len(c.of.numbers))
	for i, ns := range c.of.numbers {
		to[i] = (ns + c.plus) / 1000
	}
}

// groupRows is the row count per row group. Tests reduce it.
var groupRows = 1 << 17

// fewRows is the row count from which many rows are likely.
const fewRows = 1 << 12

const magic = "PAR1"

// newTable begins a table. selection is the text of the selection, "" for all calls.
func newTable[T any](create func(string) (io.WriteCloser, error), name string, r *format.Reader, selection string) (*table, error) {
	f, err := create(name)
	if err != nil {
		return nil, err
	}
	// Encode an empty file, to get everything except the rows.
	m := r.Meta()
	var empty bytes.Buffer
	options := []parquet.WriterOption{parquet.CreatedBy("acltrace", "", ""),
		parquet.KeyValueMetadata("acltrace.recording", m.UUID), parquet.KeyValueMetadata("acltrace.host", valid(m.Host)),
		parquet.KeyValueMetadata("acltrace.argv", valid(strings.Join(m.Argv, " "))), parquet.KeyValueMetadata("acltrace.start_wall_ns", strconv.FormatInt(m.StartWall, 10)),
		parquet.KeyValueMetadata("acltrace.simulated", strconv.FormatBool(m.Simulated)), parquet.KeyValueMetadata("acltrace.complete", strconv.FormatBool(r.Complete())),
		parquet.KeyValueMetadata("acltrace.calls_lost", strconv.FormatUint(lost(r), 10))}
	if selection != "" {
		options = append(options, parquet.KeyValueMetadata("acltrace.selection", valid(selection)))
	}
	w := parquet.NewGenericWriter[T](&empty, options...)
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
			encoding = pq.DeltaBinaryPacked // tags cannot select this encoding for nullable numbers
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

// lost returns the number of lost calls, without those that were not to be recorded.
func lost(r *format.Reader) (n uint64) {
	for _, g := range r.Gaps() {
		if !g.Intended() {
			n += g.Calls
		}
	}
	return n
}

// column returns a column by name, nil if the table has none.
func (t *table) column(name string) *column {
	if i := slices.IndexFunc(t.columns, func(c *column) bool { return c.meta.PathInSchema[0] == name }); i >= 0 {
		return t.columns[i]
	}
	return nil
}

// added ends rows after every column got its values.
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

// room reserves capacity for a whole row group once a column has values, so that it grows once.
func room[T any](s list[T]) list[T] {
	if len(s) == 0 {
		return s
	}
	return slices.Grow(s, groupRows-len(s))
}

// rows returns the column's row count, including nulls.
func (c *column) rows() int {
	if c.optional {
		return len(c.has)
	}
	return len(c.numbers) + len(c.indexes) + len(c.flags)
}

// A dictionary numbers the distinct values in a row group.
type dictionary[T cmp.Ordered] struct {
	list   []T
	by     map[T]int32
	slot   func(T) uint64 // cache slot; equal texts mostly have one address
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
		if c.of != nil {
			c.moments()
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
	c.has, c.numbers, c.indexes, c.flags = c.has[:0], c.numbers[:0], c.indexes[:0], c.flags[:0]
	if c.texts != nil {
		c.texts.reset()
	}
	if c.values != nil {
		c.values.reset()
	}
}

// chunk writes one column: its dictionary and one page.
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
		t.plain, err = (&delta.BinaryPackedEncoding{}).EncodeInt64(t.plain[:0], c.numbers)
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

// encodeIndexes encodes dictionary indexes. The dictionary's size gives their bit width.
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

// page writes levels and t.plain as a page.
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

// dictionary returns the dictionary's size and encoder, a nil encoder if there is no dictionary. A column with only
// nulls has an empty dictionary, because DuckDB requires one.
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

// numbers encodes 64-bit or 32-bit integers.
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

// bits appends one bit per flag.
func bits(b, flags []byte) []byte {
	for ; len(flags) >= 8; flags = flags[8:] {
		// The multiplication moves the lowest bit from each byte into the highest byte.
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

// maxBound is the longest text used as a column bound.
const maxBound = 64

// statistics returns the smallest and largest value, if they help readers to skip the row group.
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
		lo, hi := list[0], list[0]
		for _, v := range list {
			lo, hi = min(lo, v), max(hi, v)
		}
		s.MinValue, s.MaxValue = numbers(nil, []int64{lo}, wide), numbers(nil, []int64{hi}, wide)
	}
	return s
}

// close writes the remaining rows and the footer.
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

// FileMetaData fields before and after the row groups. Thrift's compact protocol encodes a field as the distance from
// the previous field, so numbering restarts after the row groups.
type (
	beforeGroups struct {
		Version int32                          `thrift:"1,required"`
		Schema  thrift.Slice[pq.SchemaElement] `thrift:"2,required"`
		NumRows int64                          `thrift:"3,required"`
	}
	afterGroups struct {
		KeyValueMetadata thrift.Slice[pq.KeyValue]    `thrift:"1,optional"`
		CreatedBy        string                       `thrift:"2,optional"`
		ColumnOrders     thrift.Slice[pq.ColumnOrder] `thrift:"3,optional"`
	}
)

// footer encodes FileMetaData around the encoded row groups.
func (t *table) footer() ([]byte, error) {
	m := &t.meta
	foot, err := thrift.Marshal(new(thrift.CompactProtocol), &beforeGroups{m.Version, m.Schema, m.NumRows})
	if err != nil {
		return nil, err
	}
	after, err := thrift.Marshal(new(thrift.CompactProtocol), &afterGroups{m.KeyValueMetadata, m.CreatedBy, m.ColumnOrders})
	if err != nil {
		return nil, err
	}
	const list, structure = 9, 12
	foot = append(foot[:len(foot)-1], 1<<4|list) // replaces the struct's stop byte
	if t.ngroups < 15 {
		foot = append(foot, byte(t.ngroups)<<4|structure)
	} else {
		foot = binary.AppendUvarint(append(foot, 15<<4|structure), uint64(t.ngroups))
	}
	return append(append(foot, t.groups...), after...), nil
}
