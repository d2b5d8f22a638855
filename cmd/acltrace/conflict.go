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
	record.DeviceTimeWithoutShim: "--device-time needs --probe shim: eBPF can't put events on the program's streams",
	record.OperandsWithoutShim:   "--operators all needs --probe shim: probes at the end of so many calls are slow",
	record.ShapesWithoutShim:     "--operators shapes needs --probe shim: a probe in the kernel changes no answers of the runtime",
	record.MarksWithoutShim:      "--framework-marks needs --probe shim: the framework decides at its start whether it makes marks",
	record.BlockWithoutShim:      "--policy block needs --probe shim: a probe in the kernel can't wait for the recorder; a larger --ring-size loses fewer calls",
	record.AuditWithoutShim:      "--bind audit needs --probe shim, not --probe VALUE",
	record.UnknownBind:           `--bind VALUE: want auto, preload or audit`,
	record.AuditImpossible:       "--bind audit",
	record.ArmedWithoutShim:      "--armed needs --probe shim: eBPF can be attached at any time",
	record.RingConflict:          "--ring needs --probe shim, and excludes --replayable: calls that have left the ring can't be replayed",
	record.BlobFileWithRing:      "--blobs excludes --ring, which is kept in memory",
	record.BlobFileByPID:         "--blobs: %p is unknown when the file is created; use %h or %r",
	record.MaxSizeWithRing:       "--max-size excludes --ring, which has its own size; --max-seals limits the number of its traces",
	record.StepsConflict:         "--steps needs --probe shim, and excludes --ring, which keeps the newest calls of any step",
	record.LibraryUnknown:        "VALUE: name the library with --library",
}

// inFlags words an error of a recording in terms of flags. Flags that exclude each other are wrong usage.
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
	switch {
	case o.Conflict != record.AuditImpossible && o.Conflict != record.LibraryUnknown: // these depend on the program
		return &exit{exitUsage, worded}
	case errors.Is(err, record.ErrStart):
		return fmt.Errorf("%w: %w", record.ErrStart, worded)
	}
	return worded
}

// refusals words the refusals of a recording in terms of commands.
var refusals = map[session.Refusal]string{
	session.NoRing:   "the recording has no ring: snapshot needs `acltrace record --ring`",
	session.StopsAll: "stop applies to all processes; start --pid records one process only",
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
