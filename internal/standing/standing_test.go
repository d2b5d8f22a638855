package standing

import "testing"

func TestTextNamesThreadFunctionAndStream(t *testing.T) {
	c := Call{PID: 7, TID: 8, Func: "f", ForNS: 1500}
	if got := c.String(); got != "thread 8 of process 7 in f for 1.50 us" {
		t.Error(got)
	}
	c.On = "stream 0x10"
	if got := c.String(); got != "thread 8 of process 7 in f on stream 0x10 for 1.50 us" {
		t.Error(got)
	}
}
