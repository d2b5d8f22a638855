package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/whatif"
	"github.com/acltrace/acltrace/report"
)

// advised adds to an error which flags help, and words Ctrl-C. Library packages know neither flags nor signals.
func advised(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New(strings.Replace(err.Error(), context.Canceled.Error(), "interrupted", 1))
	}
	if text := flagsFor(err); text != "" {
		return fmt.Errorf("%w%s", err, text)
	}
	return err
}

// flagsFor returns how the message of an error goes on, "" if no flag helps.
func flagsFor(err error) string {
	var audit *inject.AuditError
	var limit *compile.LimitError
	var prediction whatif.Advice
	switch {
	case errors.Is(err, host.ErrStatic):
		return ": record it with --probe ebpf"
	case errors.Is(err, ring.ErrVersion):
		return " (--api): make it anew"
	case errors.Is(err, uprobe.ErrRefused):
		return ": --probe shim records them"
	case errors.As(err, &audit) && audit.Setting != "":
		return ", or use --bind preload"
	case errors.As(err, &audit):
		return ": use --bind preload"
	case errors.As(err, new(*replay.MemoryError)):
		return ": --max-memory allows more"
	case errors.As(err, &limit):
		return fmt.Sprintf("; --max-%s=%d allows them", limit.What, limit.Have)
	case errors.As(err, &prediction):
		return report.WhatIfAdvice[prediction]
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ": free space there, or write elsewhere"
	case errors.Is(err, syscall.EROFS):
		return ": write elsewhere"
	case errors.Is(err, syscall.EFBIG):
		return ": raise the limit (ulimit -f), or write less"
	case errors.Is(err, blame.ErrNothingFailed):
		return ": name a call or a task with --call or --task"
	}
	return ""
}
