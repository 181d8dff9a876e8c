package ebpf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A UDP socket that is connected asks no program when it sends. When its endpoint is gone it is
// stranded: what it sends goes nowhere, and nothing tells it. The kernel can end such a socket for the
// agent, in the agent's own namespace; the program that knows the socket hears ECONNABORTED.
//
// Which sockets these are stands in a map by their cookies, for no other way leads there with the
// rights that there are: an iterator over sockets takes PERFMON, and sock_diag shows one namespace.

// Stranded is how many UDP sockets were found connected to an endpoint that is gone, and could not be
// ended, when it was last looked: those of pods' namespaces, which it takes SYS_ADMIN to enter
// (Config.PodSpaces), and the node's own where the kernel cannot (CONFIG_INET_DIAG_DESTROY).
func (t *Target) Stranded() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stranded
}

// rescues looks for them until ctx ends: after each change, and as often as there is a sweep. It takes a
// tenth of the time at most, however often there is a change.
func (t *Target) rescues(ctx context.Context) error {
	again := time.NewTicker(sweepEvery)
	defer again.Stop()
	stay := complaint{log: t.log, about: "UDP sockets may stay connected to endpoints that are gone"}
	for {
		began := time.Now()
		stay.say(t.rescue())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(9 * time.Since(began)):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.changed:
		case <-again.C:
		}
	}
}

// rescue ends those of the node and, where it may enter their namespaces, of pods, and counts the others. Without
// programs at sockets there are none.
func (t *Target) rescue() error {
	peers, m, err := t.speaking()
	if err != nil || peers == nil {
		return err
	}
	defer closeAll(peers, m.PlumbAddrs, m.PlumbFronts, m.PlumbMembers)
	lost, err := m.stranded(peers)
	if err != nil {
		return fmt.Errorf("look for stranded sockets: %w", err)
	}
	own, pods := map[uint64]place{}, map[uint64]place{}
	for cookie, p := range lost {
		if p.Node == 1 {
			own[cookie] = place{p.Addr, p.Port}
		} else {
			pods[cookie] = place{p.Addr, p.Port}
		}
	}
	ended, left := 0, len(pods)
	if len(own) > 0 {
		ended, left, err = endSockets(t.cfg.NetNS, own)
		left += len(pods)
	}
	if len(pods) > 0 && t.cfg.PodSpaces != "" {
		there, failed := endPods(t.cfg.PodSpaces, pods)
		ended, left, err = ended+there, left-there, errors.Join(err, failed)
	}
	if ended > 0 {
		t.log.Info("UDP sockets were ended whose endpoint is gone", "sockets", ended)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stranded = left
	return err
}

// endPods ends those of the namespaces in a folder.
func endPods(folder string, which map[uint64]place) (ended int, err error) {
	err = eachPod(folder, func(netns int) error {
		if ended == len(which) {
			return nil
		}
		n, _, err := endSockets(netns, which)
		ended += n
		return err
	})
	return ended, err
}

// speaking are second descriptors of what tells which sockets are connected, and to what they may be.
func (t *Target) speaking() (peers *ebpf.Map, m *plumbMaps, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.socks == nil || !t.ready { // before a first Apply the maps have no frontends
		return nil, nil, nil
	}
	all, err := cloned(t.socks.PlumbUdp, t.objs.PlumbAddrs, t.objs.PlumbFronts, t.objs.PlumbMembers)
	if err != nil {
		return nil, nil, fmt.Errorf("look for stranded sockets: %w", err)
	}
	return all[0], &plumbMaps{PlumbAddrs: all[1], PlumbFronts: all[2], PlumbMembers: all[3]}, nil
}

// stranded are the sockets, by cookie, whose endpoint does not serve what they asked for. Each is asked
// about twice, for a list may have had a successor between two questions.
func (m *plumbMaps) stranded(peers *ebpf.Map) (map[uint64]plumbPeer, error) {
	all := map[uint64]plumbPeer{}
	err := entries(peers, func(cookie uint64, p plumbPeer) { all[cookie] = p })
	for cookie, p := range all {
		serves := false
		for range 2 {
			if !serves && err == nil {
				serves, err = m.serves(p)
			}
		}
		if err != nil {
			return nil, err
		}
		if serves {
			delete(all, cookie)
		}
	}
	return all, err
}

// serves tells whether an endpoint is in a route of the frontend that a UDP socket asked for, or drains
// (serves in bpf/service.h).
func (m *plumbMaps) serves(p plumbPeer) (bool, error) {
	f, err := m.asked(p)
	if f == nil {
		return false, err
	}
	lists := []uint32{f.Routes[0].List, f.Draining}
	if f.Flags&frontendHasInside != 0 {
		lists = append(lists, f.Routes[1].List)
	}
	for _, list := range lists {
		var flags uint32
		err := m.PlumbMembers.Lookup(memberKey(list, place{p.Addr, p.Port}), &flags)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return false, fmt.Errorf("read a member: %w", err)
		}
	}
	return false, nil
}

// asked is the frontend that a UDP socket asked for (find_for in bpf/choose.h), nil if it is gone.
func (m *plumbMaps) asked(p plumbPeer) (*plumbFrontend, error) {
	var class uint32
	err := m.PlumbAddrs.Lookup(p.Asked, &class)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("read an address: %w", err)
	}
	keys := []plumbFrontendKey{{Addr: p.Asked, Port: p.AskedPort, Proto: unix.IPPROTO_UDP}}
	if class&addressNode != 0 {
		kind := uint8(frontendNodePort)
		if fromAddr(p.Asked).Is6() {
			kind = frontendNodePort6
		}
		keys = append(keys, plumbFrontendKey{Port: p.AskedPort, Proto: unix.IPPROTO_UDP, Kind: kind})
	}
	for _, k := range keys {
		var f plumbFrontend
		err := m.PlumbFronts.Lookup(k, &f)
		if err == nil && class != 0 {
			return &f, nil
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("read a frontend: %w", err)
		}
	}
	return nil, nil
}
