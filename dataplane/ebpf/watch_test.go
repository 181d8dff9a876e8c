package ebpf_test

import (
	"context"
	"testing"

	"github.com/vishvananda/netlink"

	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
)

func watched(t *testing.T, target *dataplane.Target) (lost chan struct{}) {
	lost = make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- target.Watch(ctx, func() { lost <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lost
}

// A device that comes has its programs within milliseconds.
func TestNewDevice(t *testing.T) {
	w := newWorld(t, planOf(), nil)
	w.target.NeverGlance()
	lost := watched(t, w.target)
	for range 5 {
		index := 0
		w.in(w.Node, func() error {
			l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "new"}, PeerName: "peer"}
			if err := netlink.LinkAdd(l); err != nil {
				return err
			}
			made, err := netlink.LinkByName("new")
			if err == nil {
				index = made.Attrs().Index
			}
			return err
		})
		took := await(t, "the new device has its programs", func() bool { return programs(t, w.Node, index) == 2 })
		t.Logf("after %s", took)
		w.in(w.Node, func() error {
			l, err := netlink.LinkByName("new")
			if err != nil {
				return err
			}
			return netlink.LinkDel(l)
		})
	}
	if len(lost) > 0 {
		t.Error("a new device counts as damage")
	}
}

// A program that somebody takes away is put back, and told of.
func TestProgramTakenAway(t *testing.T) {
	w := newWorld(t, planOf(), nil)
	lost := watched(t, w.target)
	index := devicesOf(t, w.Node)[0].Index
	if err := detach(w.Node, index, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the program is back", func() bool { return programs(t, w.Node, index) == 2 })
	await(t, "the damage is told of", func() bool { return len(lost) > 0 })
}
