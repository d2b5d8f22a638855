package otlp

import (
	"bytes"
	"testing"
)

func TestSpanLengths(t *testing.T) {
	for _, n := range []int{0, 1, 126, 127, 128, 129, 5000, 1<<14 - 1, 1 << 14, 1<<14 + 1, 1 << 21} {
		content := bytes.Repeat([]byte{7}, n)
		b := closeSpan(append(openSpan([]byte("before")), content...), len("before"))
		want := append(putLen([]byte("before"), scopeSpansSpan, n), content...)
		if !bytes.Equal(b, want) {
			t.Errorf("a span of %d bytes", n)
		}
	}
}
