package ebpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Drop is a packet that went no further: one of at most ten a second of each reason on each
// processor.
type Drop struct {
	At       time.Time
	Reason   string           // one of Reasons
	Device   int              // by index: where it came in, or was to leave
	Leaving  bool             // it was to leave
	Protocol objects.Protocol // its number, whatever it is
	Src, Dst netip.AddrPort   // as they were; ports are 0 where the protocol has none
}

// dropped is who is to be told.
func (t *Target) dropped(ctx context.Context) func(Drop) {
	if t.cfg.Dropped == nil {
		return nil
	}
	return t.cfg.Dropped(ctx)
}

// drops tells of packets until ctx ends: those that go no further from now on.
func (t *Target) drops(ctx context.Context, tell func(Drop)) error {
	samples, err := t.samples(ctx)
	if samples == nil {
		return err
	}
	defer samples.Close() // of a second descriptor
	r, err := ringbuf.NewReader(samples)
	if err != nil {
		return fmt.Errorf("read dropped packets: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = r.Close() })()
	defer r.Close()
	begin := uptime()
	var rec ringbuf.Record
	for {
		err := r.ReadInto(&rec)
		if errors.Is(err, ringbuf.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read dropped packets: %w", err)
		}
		var s plumbSample
		if len(rec.RawSample) != binary.Size(s) { // of a program of another build
			return fmt.Errorf("read a dropped packet: it has %d bytes, want %d", len(rec.RawSample), binary.Size(s))
		}
		if _, err := binary.Decode(rec.RawSample, binary.NativeEndian, &s); err != nil {
			return fmt.Errorf("read a dropped packet: %w", err)
		}
		if s.At >= begin { // else from before there was somebody to read it
			tell(s.drop(time.Now().Add(time.Duration(s.At - uptime()))))
		}
	}
}

// samples waits for the first Apply; nil if ctx ends before.
func (t *Target) samples(ctx context.Context) (*ebpf.Map, error) {
	again := time.NewTicker(glanceEvery)
	defer again.Stop()
	for {
		t.mu.Lock()
		if t.objs != nil {
			defer t.mu.Unlock()
			return t.objs.PlumbSamples.Clone()
		}
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil
		case <-again.C:
		}
	}
}

func (s plumbSample) drop(at time.Time) Drop {
	d := Drop{
		At: at, Device: int(s.Device), Leaving: s.T.Step == stepEgress, Protocol: objects.Protocol(s.T.Proto),
		Src: netip.AddrPortFrom(fromAddr(s.T.Src), swapped(s.T.Sport)), Dst: netip.AddrPortFrom(fromAddr(s.T.Dst), swapped(s.T.Dport)),
	}
	if names := countNames(); int(s.Why) < len(names) {
		d.Reason = names[s.Why]
	}
	return d
}
