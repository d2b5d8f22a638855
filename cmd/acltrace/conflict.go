package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/session"
)

// conflicts words the conflicts of options in terms of flags. VALUE stands for the value of the error.
var conflicts = map[record.Conflict]string{
	record.DeviceTimeWithoutShim: "--device-time puts events on the program's streams, which only --probe shim can",
	record.BlockWithoutShim:      "--policy block does not go with --probe ebpf: a probe in the kernel can't wait for the recorder; choose --probe shim, or a larger --ring-size",
	record.AuditWithoutShim:      "--bind audit is a way to bind the shim: it does not go with --probe VALUE",
	record.UnknownBind:           `no way "VALUE" to bind the shim: there are auto, preload and audit`,
	record.AuditImpossible:       "--bind audit",
	record.ArmedWithoutShim:      "--armed goes with --probe shim: what eBPF records is attached when it is wanted",
	record.RingConflict:          "a ring goes with --probe shim, and not with --replayable: what has left the ring can't be replayed",
	record.BlobFileWithRing:      "--blobs does not go with a ring, which is kept in memory",
	record.BlobFileByPID:         "--blobs: %p is not known when that file is made; %h and %r are",
	record.MaxSizeWithRing:       "--max-size ends a recording of everything: a ring has its own size, and --max-seals says how many traces are made of it",
	record.StepsConflict:         "--steps goes with --probe shim, and not with a ring, which keeps the newest calls whatever the step",
	record.LibraryUnknown:        "VALUE: name it with --library",
}

// inFlags words an error of a recording in terms of flags.
func inFlags(err error) error {
	var o *record.OptionError
	if !errors.As(err, &o) || conflicts[o.Conflict] == "" {
		return err
	}
	text := strings.ReplaceAll(conflicts[o.Conflict], "VALUE", o.Value)
	worded := errors.New(text)
	if o.Err != nil {
		worded = fmt.Errorf("%s: %w", text, o.Err)
	}
	if errors.Is(err, record.ErrStart) {
		return fmt.Errorf("%w: %w", record.ErrStart, worded)
	}
	return worded
}

// refusals words the refusals of a recording in terms of commands.
var refusals = map[session.Refusal]string{
	session.NoRing:   "it records everything into one file: a snapshot is of a ring, which `acltrace record --ring` keeps",
	session.StopsAll: "stop is for all processes; start --pid has one record alone",
}

// ask is session.Ask with refusals in terms of commands.
func ask(folder string, q *session.Request) (*session.Status, error) {
	st, err := session.Ask(folder, q)
	var refused session.Refusal
	if errors.As(err, &refused) && refusals[refused] != "" {
		err = fmt.Errorf("%s: %s", folder, refusals[refused])
	}
	return st, err
}

// missed words the steps that a program has not reached.
func missed(m *record.MissedSteps) string {
	return fmt.Sprintf("--steps %d:%d: the program has made %d steps, which were told apart by %s", m.Wanted.First, m.Wanted.Last, m.Made, m.By)
}
