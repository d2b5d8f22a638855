package meter

import (
	"fmt"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// A bucket includes its upper bound.
func TestBucketIncludesItsUpperBound(t *testing.T) {
	v := value{buckets: make([]uint64, len(bounds)+1)}
	for _, ns := range []int64{0, 1_000, 1_001, int64(time.Second), int64(time.Second) + 1, -5} {
		v.observe(ns)
	}
	if v.buckets[0] != 3 || v.buckets[1] != 1 || v.buckets[len(bounds)-1] != 1 || v.buckets[len(bounds)] != 1 || v.min != 0 || v.max != int64(time.Second)+1 || v.count != 6 {
		t.Errorf("%+v", v)
	}
}

// A process's streams beyond the limit share one value.
func TestStreamsOverTheLimitShareValues(t *testing.T) {
	rs, err := otlp.NewLiveResources(acl.Model, "")
	if err != nil {
		t.Fatal(err)
	}
	rs.Meta = &format.Meta{}
	rs.Add(&format.Process{PID: 1})
	x := New(rs, acl.Model, nil)
	for i := range 10 * maxStreams {
		if err := x.Lane(i, &timeline.Lane{Stream: &timeline.Object{}, Name: fmt.Sprint("stream ", i), Device: 0}); err != nil {
			t.Fatal(err)
		}
		if err := x.Task(&timeline.Task{Lane: i, Kind: api.Kernel}); err != nil {
			t.Fatal(err)
		}
	}
	sum := int64(0)
	for _, v := range x.values {
		sum += v.sum
	}
	if len(x.values) != maxStreams+1 || sum != 10*maxStreams {
		t.Errorf("%d values of %d launches", len(x.values), sum)
	}
}
