package whatif

import (
	"testing"

	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
)

// A recorded task of a graph takes as many times longer as the other device needs more rows of blocks, or more time for the copy. A model that
// lacks these values changes no time.
func TestRecordedTasksOfGraphsOnAnotherModel(t *testing.T) {
	device := func(cores int, rate float64, duration int64) *model.Model {
		m := &model.Model{Kernels: []model.Kernel{{Name: "*", Duration: duration}}}
		m.Cores.Vector = cores
		if rate > 0 {
			m.Copies = map[model.CopyKind]model.Copy{model.HostToDevice: {Sizes: []model.CopySize{{Rate: rate}}}}
		}
		return m
	}
	for name, c := range map[string]struct {
		base, playing *model.Model
		op            virtual.Op
		want          int64
	}{
		"a quarter of the cores": {device(8, 0, 0), device(2, 0, 0), virtual.Op{Kind: virtual.Kernel, Blocks: 8}, 4000},
		"more cores":             {device(2, 0, 0), device(8, 0, 0), virtual.Op{Kind: virtual.Kernel, Blocks: 8}, 250},
		"no cores recorded":      {device(0, 0, 0), device(8, 0, 0), virtual.Op{Kind: virtual.Kernel, Blocks: 8}, 1000},
		"no cores to play on":    {device(8, 0, 0), device(0, 0, 0), virtual.Op{Kind: virtual.Kernel, Blocks: 8}, 1000},
		"a given duration":       {device(8, 0, 0), device(8, 0, 5), virtual.Op{Kind: virtual.Kernel, Blocks: 8}, unknown},
		"half the rate":          {device(8, 2, 0), device(8, 1, 0), virtual.Op{Kind: virtual.Copy, Copy: model.HostToDevice, Bytes: 100}, 2000},
		"no rate recorded":       {device(8, 0, 0), device(8, 1, 0), virtual.Op{Kind: virtual.Copy, Copy: model.HostToDevice, Bytes: 100}, 1000},
	} {
		v := &runner{p: &program{}, base: c.base, playing: c.playing}
		v.p.kernels.all = append(v.p.kernels.all, kernel{name: "matmul"})
		if got := v.graphTaskOn(&c.op, 1000); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
