package uprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Run delivers calls to sink until ctx ends. Then it detaches the probes and delivers the rest. Calls that have not returned
// have no end.
func (u *Probes) Run(ctx context.Context, sink probe.Sink) error {
	if u.reader == nil {
		return errors.New("run uprobes: they only count")
	}
	u.decoder.sink = sink
	var rec ringbuf.Record
	for ctx.Err() == nil {
		// The kernel wakes the reader only when an eighth of the ring is full.
		u.reader.SetDeadline(time.Now().Add(20 * time.Millisecond))
		if err := errors.Join(u.read(ctx, &rec), u.meanwhile()); err != nil {
			return err
		}
	}
	if err := u.Pause(); err != nil {
		return err
	}
	u.ended = probe.Now()
	if err := u.detach(); err != nil {
		return fmt.Errorf("detach uprobes: %w", err)
	}
	u.reader.SetDeadline(time.Now())
	if err := u.read(context.Background(), &rec); err != nil {
		return err
	}
	return u.leftovers()
}

// ThreadName returns the name of a thread at its first call, "" if unknown: the thread may have ended since. Call it from the sink.
func (u *Probes) ThreadName(_, tid int) string { return u.decoder.names[tid] }

// read delivers records until there are none before the reader's deadline.
func (u *Probes) read(ctx context.Context, rec *ringbuf.Record) error {
	for n := 1; ; n++ {
		err := u.reader.ReadInto(rec)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read uprobe ring: %w", err)
		}
		if err := u.decoder.deliver(rec.RawSample); err != nil {
			return err
		}
		if n%1024 != 0 {
			continue
		}
		if err := u.meanwhile(); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func (u *Probes) meanwhile() error {
	u.tidy()
	u.decoder.kernels.tidy(probe.Now())
	u.decoder.callers.tidy(probe.Now())
	if u.opts.Meanwhile == nil {
		return nil
	}
	return u.opts.Meanwhile()
}

// leftovers delivers the records that the kernel still holds for live threads.
func (u *Probes) leftovers() error {
	for pid := range u.decoder.callers.code {
		u.decoder.callers.learn(pid)
	}
	for tid := range u.decoder.parts {
		if err := u.decoder.partsEnd(tid); err != nil {
			return err
		}
	}
	u.decoder.ended = true
	var id, left uint64
	var b []byte
	it := u.programs.coll.Maps[bpf.UprobeMapThreads].Iterate()
	for it.Next(&id, &b) {
		n, err := u.decoder.leftover(b)
		if err != nil {
			return err
		}
		left += n
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read threads of uprobes: %w", err)
	}
	lost, _, err := u.Lost()
	if err != nil {
		return err
	}
	if lost += left; lost > u.decoder.gaps {
		return u.decoder.sink.Gap(&probe.Gap{Calls: lost - u.decoder.gaps, Reason: "no memory for more threads"})
	}
	return nil
}
