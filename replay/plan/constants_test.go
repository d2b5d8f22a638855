package plan

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The numbers in a plan and in results mean the same to the player.
func TestConstantsAreThePlayers(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	constants := []struct {
		name  string
		value int
	}{
		{"PLAN_VERSION", version}, {"PLAN_HEADER", headerSize}, {"OWN_STRIDE", OwnStride}, {"DATA_ALIGN", DataAlign},
		{"SLOT_ZERO", SlotZero}, {"SLOT_DATA", SlotData}, {"SLOT_SCRATCH", SlotScratch}, {"SLOT_SLOTS", SlotSlots}, {"SLOT_SHARED", SlotShared}, {"SLOT_HOST_FUNCTION", SlotHostFunction},
		{"SLOT_STREAM_FUNCTION", SlotStreamFunction}, {"SLOT_CALLBACK", SlotCallback}, {"SLOT_POISON", SlotPoison}, {"SLOT_ZEROS", SlotZeros}, {"SLOT_THREADS", SlotThreads},
		{"OP_NOTHING", OpNothing}, {"OP_CALL", OpCall}, {"OP_UNTIL", OpUntil}, {"OP_STORE", OpStore}, {"OP_CHECK", OpCheck}, {"OP_WAIT", OpWait}, {"OP_TAKE", OpTake}, {"OP_MARK", OpMark},
		{"OP_PLACE", OpPlace}, {"OP_FORK", OpFork},
		{"INST_STOP", InstStop}, {"INST_START", InstStart}, {"INST_END", InstEnd}, {"INST_UNMARKED", InstUnmarked}, {"INST_LATE", InstLate}, {"INST_EXCUSED", InstExcused}, {"INST_SINCE", InstSince},
		{"CHECK_GUESS", CheckGuess}, {"CHECK_OUTPUT", CheckOutput}, {"CHECK_RESULT", CheckResult}, {"CHECK_MACHINE", CheckMachine}, {"CHECK_EXTENT", CheckExtent}, {"CHECK_LENGTH", CheckLength},
		{"RUN_STARTED", RunStarted}, {"RUN_DONE", RunDone}, {"RUN_REFUSED", RunRefused},
		{"RESULT_DONE", ResultDone}, {"RESULT_DIFFERS", ResultDiffers}, {"RESULT_TIMEOUT", ResultTimeout}, {"RESULT_TOLERATED", ResultTolerated}, {"RESULT_REPORTED", ResultReported},
		{"RESULT_REASON_SHIFT", ReasonShift}, {"RESULT_KERNEL_SHIFT", KernelShift}, {"KERNEL_NAMES", KernelNames}, {"KERNEL_NAME", KernelName},
	}
	header, err := filepath.Abs("../player/plan.h")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("#include %q\n", header)
	for _, c := range constants {
		text += fmt.Sprintf("_Static_assert(%s == %d, \"%s is not %d\");\n", c.name, c.value, c.name, c.value)
	}
	if InstAside&(InstStop|InstStart|InstEnd|InstUnmarked|InstLate|InstExcused|InstSince) != 0 {
		t.Error("InstAside is a bit of the player")
	}
	source := filepath.Join(t.TempDir(), "constants.c")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-std=c11", "-fsyntax-only", source).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(OpNames) != OpFork+1 || len(SlotNames) != SlotThreads {
		t.Error("names are missing")
	}
}
