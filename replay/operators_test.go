package replay

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

// An operator that is wrong in one data type, for one kind of strides or in the elements that don't fill a vector makes the replay of a training step
// differ at its launch, and the difference names it. The launch is counted among those of the operator.
func TestSeededFaultsOfOperators(t *testing.T) {
	libraries := filepath.Dir(testenv.Built(t, "lib/libopapi.so"))
	program := testenv.CompileC(t, "step", []string{"testdata/step.c"}, "-L"+libraries, "-Wl,-rpath,"+libraries, "-Wl,--no-as-needed", "-lopapi_math", "-lopapi_nn", "-lnnopbase")
	simulate(t)
	broken := brokenSim(t)
	path := recorded(t, program)
	launches := map[string][]uint64{}
	for i, c := range load(t, path) {
		for _, d := range c.Data {
			if b, err := block.Decode(d.Bytes); err == nil {
				launches[b.Name] = append(launches[b.Name], uint64(i))
			}
		}
	}
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		r := run(t, path, &Options{Verify: true, Place: place})
		if r.Verdict != verify.Identical || r.NotComputed != nil {
			t.Fatalf("%s: %s, not computed %+v, differences %+v", place, r.Verdict, r.NotComputed, r.Differences)
		}
	}
	for _, x := range []struct {
		fault  string // operator, data type, and when
		launch int    // the first wrong one of the operator's launches
	}{
		{"aclnnMm float32", 0},
		{"aclnnMm float32 strided", 0},
		{"aclnnMm float16", 1},
		{"aclnnMm bfloat16", 2},
		{"aclnnMm float16 tail", 1},
		{"aclnnAdd float32 tail", 0},
		{"aclnnAdd int64", 1},
		{"aclnnCast float16 tail", 0},
		{"aclnnCast bfloat16", 1},
		{"aclnnSilu bfloat16 tail", 0},
		{"aclnnTanh float32", 0},
		{"aclnnLogSoftmax float32 tail", 0},
		{"aclnnNLLLossBackward float32", 0},
		{"aclnnReduceSum float32 tail", 0},
		{"aclnnMul float32 strided", 0},
		{"aclnnMul int32 tail", 1},
		{"aclnnEqTensor bool", 0},
		{"aclnnInplaceAdd float32", 0},
		{"aclnnConvolution float32", 0},
		{"aclnnConvolutionBackward float32 tail", 0},
		{"aclnnBatchNorm float32", 0},
		{"aclnnAvgPool2d float32 tail", 0},
	} {
		t.Run(strings.ReplaceAll(x.fault, " ", "/"), func(t *testing.T) {
			t.Setenv("ACLSIM_BREAK", "compute "+x.fault)
			r := run(t, path, &Options{Verify: true, Backend: broken, Trust: true})
			if r.Verdict != verify.Different || len(r.Differences) == 0 || len(r.Differences[0].Chain) == 0 {
				t.Fatalf("%s, %+v", r.Verdict, r.Differences)
			}
			name, chain := strings.Fields(x.fault)[0], r.Differences[0].Chain
			if w := chain[len(chain)-1]; w.Name != name || w.Call != launches[name][x.launch] {
				t.Errorf("the difference comes from call %d, %s: want one of %v", w.Call, w.Name, launches[name])
			}
		})
	}
}
