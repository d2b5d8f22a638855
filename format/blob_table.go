package format

import "github.com/acltrace/acltrace/format/column"

// blobTable is a run of blob table rows: the content of a blobmap chunk.
type blobTable struct {
	first   uint64
	blobs   [3][]uint64
	extents [2][]uint64
	used    int    // extents of the blobs, from the first on
	others  []byte // all tables but the extents, as in the chunk
}

// encode makes the content of a blobmap chunk.
func (t *blobTable) encode(enc *column.Encoder) []byte {
	return enc.Table(enc.Table(nil, kindBlobs, t.first, t.blobs[:]...), kindExtents, t.first, t.extents[:]...)
}

// decode is the reverse of encode, and reuses the memory of t. It reports content of later versions to unknown.
func (t *blobTable) decode(raw []byte, unknown func(what string)) error {
	for i := range t.blobs {
		t.blobs[i] = t.blobs[i][:0]
	}
	for i := range t.extents {
		t.extents[i] = t.extents[i][:0]
	}
	t.used, t.others = 0, t.others[:0]
	b := block{unknown: unknown}
	for len(raw) > 0 {
		table, rest, err := column.NextTable(raw)
		if err != nil {
			return err
		}
		if table.Kind != kindExtents {
			t.others = append(t.others, raw[:len(raw)-len(rest)]...)
		}
		raw = rest
		switch {
		case table.Kind == kindBlobs && table.Rows <= maxCalls:
			t.first = table.ID
			err = b.columns(table, t.blobs[:], int(table.Rows))
		case table.Kind == kindExtents && table.Rows <= maxBlobSize/extentSize:
			err = b.columns(table, t.extents[:], int(table.Rows))
		case table.Kind == kindBlobs || table.Kind == kindExtents:
			err = errBlock
		default:
			unknown("kind of table")
		}
		if err != nil {
			return err
		}
	}
	for _, size := range t.blobs[blobSize] {
		n := extentsOf(size)
		if size > maxBlobSize || n > uint64(len(t.extents[0])-t.used) {
			return errBlock
		}
		t.used += int(n)
	}
	return nil
}

// extentsOf is the number of extents of a payload.
func extentsOf(size uint64) uint64 { return (size + extentSize - 1) / extentSize }
