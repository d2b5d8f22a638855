package format

import (
	"bytes"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/format/column"
)

// A decoded blob table has the rows that were encoded, and keeps tables of later versions as they are.
func TestBlobTable(t *testing.T) {
	var enc column.Encoder
	from := blobTable{first: 7, blobs: [3][]uint64{{1, 2}, {3, 4}, {5, extentSize + 1}}, extents: [2][]uint64{{0, 100, 200, 300}, {0, 8, 16, 24}}}
	later := enc.Table(nil, 9, 5, []uint64{1, 2, 3})
	raw := slices.Concat(from.encode(&enc), later)
	var to blobTable
	for range 2 { // the second time with the memory of the first
		var unknown []string
		if err := to.decode(raw, func(what string) { unknown = append(unknown, what) }); err != nil {
			t.Fatal(err)
		}
		if to.first != 7 || to.used != 3 || len(unknown) != 1 || !bytes.HasSuffix(to.others, later) {
			t.Errorf("decoded %+v, unknown %q", to, unknown)
		}
		for i := range from.blobs {
			if !slices.Equal(to.blobs[i], from.blobs[i]) {
				t.Errorf("field %d of blobs is %v, want %v", i, to.blobs[i], from.blobs[i])
			}
		}
		for i := range from.extents {
			if !slices.Equal(to.extents[i], from.extents[i]) {
				t.Errorf("field %d of extents is %v, want %v", i, to.extents[i], from.extents[i])
			}
		}
		if again := enc.Table(slices.Clone(to.others), kindExtents, to.first, to.extents[:]...); len(again) != len(raw) {
			t.Errorf("%d bytes encoded again, want %d", len(again), len(raw))
		}
	}
	for name, size := range map[string]uint64{"more extents than there are": 4 * extentSize, "a length over the limit": maxBlobSize + 1} {
		from.blobs[blobSize][0] = size
		if err := to.decode(from.encode(&enc), nil); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
