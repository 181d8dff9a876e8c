package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/florianl/go-nfqueue/v2" // small, on the netlink library that is here; netem is not in every kernel
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// delayBy is how long a packet is held: more than a client is to notice, less than a kernel
// waits before it sends a SYN again.
const delayBy = 300 * time.Millisecond

// queueNumber is that of the netfilter queue; each namespace has its own queues.
const queueNumber = 4242

// toQueue hands a packet to the queue. nftables' own statement is not in every kernel that has
// xtables' target.
func toQueue() expr.Any {
	info := xt.Unknown(binary.NativeEndian.AppendUint16(nil, queueNumber)) // struct xt_NFQ_info, XT_ALIGN: 8 bytes
	info = append(info, make([]byte, 6)...)
	return &expr.Target{Name: "NFQUEUE", Info: &info}
}

// held is a queue whose packets go on delayBy later, in their order.
type held struct {
	queue   *nfqueue.Nfqueue
	stop    context.CancelFunc
	seen    atomic.Uint64
	arrived chan struct{}  // one more was seen
	out     sync.WaitGroup // packets that are held
	failed  atomic.Pointer[error]
}

// hold takes the packets of a namespace's queue.
func hold(namespace *os.File) (*held, error) {
	q, err := nfqueue.Open(&nfqueue.Config{NetNS: int(namespace.Fd()), NfQueue: queueNumber, MaxQueueLen: 65535, MaxPacketLen: 128, Copymode: nfqueue.NfQnlCopyMeta})
	if err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	h := &held{queue: q, stop: stop, arrived: make(chan struct{}, 1)}
	if err := q.RegisterWithErrorFunc(ctx, h.packet, func(err error) int {
		if ctx.Err() == nil {
			h.fail(fmt.Errorf("read the queue: %w", err))
		}
		return 1
	}); err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("take the queue: %w", err), q.Close())
	}
	return h, nil
}

func (h *held) packet(a nfqueue.Attribute) int {
	if a.PacketID == nil {
		h.fail(errors.New("a packet without a number"))
		return 1
	}
	id := *a.PacketID
	h.out.Add(1)
	h.seen.Add(1)
	select {
	case h.arrived <- struct{}{}:
	default:
	}
	time.AfterFunc(delayBy, func() {
		defer h.out.Done()
		if err := h.queue.SetVerdict(id, nfqueue.NfAccept); err != nil {
			h.fail(fmt.Errorf("let packet %d go: %w", id, err))
		}
	})
	return 0
}

func (h *held) fail(err error) { h.failed.CompareAndSwap(nil, &err) }

// close waits until all that the rule sent to the queue have gone: what is in a queue that ends is
// lost.
func (h *held) close(sent uint64) error {
	deadline := time.After(5 * time.Second)
	for late := false; h.seen.Load() < sent && !late; {
		select {
		case <-h.arrived:
		case <-deadline:
			h.fail(fmt.Errorf("of %d packets in the queue %d came out", sent, h.seen.Load()))
			late = true
		}
	}
	h.out.Wait()
	h.stop()
	err := h.queue.Close()
	if failed := h.failed.Load(); failed != nil {
		err = errors.Join(*failed, err)
	}
	return err
}
