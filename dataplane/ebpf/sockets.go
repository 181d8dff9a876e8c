package ebpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
)

// socketHook is a place for a program at the sockets of a cgroup.
type socketHook struct {
	at      ebpf.AttachType
	name    string // of the program; its pin begins so, and its link's
	program **ebpf.Program
}

// hooks are in the order in which they are attached: what tells a socket whom it speaks to comes
// before what makes that another one than it asked for.
func (o *socketPrograms) hooks() []socketHook {
	return []socketHook{
		{ebpf.AttachCgroupInet4GetPeername, socketProgPlumbGetpeer4, &o.PlumbGetpeer4},
		{ebpf.AttachCgroupInet6GetPeername, socketProgPlumbGetpeer6, &o.PlumbGetpeer6},
		{ebpf.AttachCGroupUDP4Recvmsg, socketProgPlumbRecvmsg4, &o.PlumbRecvmsg4},
		{ebpf.AttachCGroupUDP6Recvmsg, socketProgPlumbRecvmsg6, &o.PlumbRecvmsg6},
		{ebpf.AttachCgroupInetSockRelease, socketProgPlumbRelease, &o.PlumbRelease},
		{ebpf.AttachCGroupInet4Connect, socketProgPlumbConnect4, &o.PlumbConnect4},
		{ebpf.AttachCGroupInet6Connect, socketProgPlumbConnect6, &o.PlumbConnect6},
		{ebpf.AttachCGroupUDP4Sendmsg, socketProgPlumbSendmsg4, &o.PlumbSendmsg4},
		{ebpf.AttachCGroupUDP6Sendmsg, socketProgPlumbSendmsg6, &o.PlumbSendmsg6},
	}
}

// pinned are the maps that only programs at sockets have, by the names of their pins.
func (m *socketMaps) pinned() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{socketMapPlumbSent: &m.PlumbSent, socketMapPlumbUdp: &m.PlumbUdp}
}

// loadSockets loads the programs over the maps of the others, and those of their own that are pinned
// or, where these are of another size, new ones: who sent a datagram before then gets its answer
// from the endpoint, and UDP sockets that were connected before stay so when their endpoint is gone.
func loadSockets(cfg Config, shared *plumbMaps) (objs *socketObjects, err error) {
	spec, err := loadSocket()
	if err != nil {
		return nil, fmt.Errorf("read the programs at sockets: %w", err)
	}
	opts := &ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: layoutFolder(cfg.Pins)}, MapReplacements: map[string]*ebpf.Map{}}
	for name, m := range shared.pinned() {
		spec.Maps[name].MaxEntries = (*m).MaxEntries()
		opts.MapReplacements[name] = *m
	}
	for name := range (&socketMaps{}).pinned() {
		spec.Maps[name].MaxEntries = max(1024, cfg.Sizes.Connections/4)
	}
	if cfg.Alter != nil {
		err = cfg.Alter(spec)
	} else if objs, err = foundSockets(cfg.Pins, shared, spec); objs != nil {
		return objs, nil
	}
	if err != nil {
		return nil, err
	}
	if err := inherit(cfg.Pins, spec, slices.Collect(maps.Keys((&socketMaps{}).pinned())), cfg.Logger); err != nil {
		return nil, err
	}
	if err := cfg.tell(spec); err != nil {
		return nil, err
	}
	objs = &socketObjects{}
	err = spec.LoadAndAssign(objs, opts)
	if errors.Is(err, ebpf.ErrMapIncompatible) {
		if err := unpinSockets(cfg.Pins); err != nil {
			return nil, err
		}
		err = spec.LoadAndAssign(objs, opts)
	}
	if err != nil {
		return nil, fmt.Errorf("at sockets: %w", notLoaded(explained(err, features.HaveProgramHelper, mayPerfmon())))
	}
	if err := objs.pin(cfg.Pins); err != nil {
		return nil, errors.Join(err, objs.Close())
	}
	return objs, nil
}

// tell sets what the programs are told of the kernel and the node.
func (c *Config) tell(spec *ebpf.CollectionSpec) error {
	netns, err := cookie(c.NetNS)
	if err != nil {
		return err
	}
	refuses := uint8(1)
	err = features.HaveProgramHelper(ebpf.CGroupSockAddr, asm.FnSetRetval)
	if errors.Is(err, ebpf.ErrNotSupported) {
		c.Logger.Info("the kernel has no bpf_set_retval (Linux 5.18): calls are not refused, their packets are")
		refuses, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("ask for bpf_set_retval: %w", err)
	}
	return errors.Join(spec.Variables[socketVarNodeNetns].Set(netns), spec.Variables[socketVarCanRefuse].Set(refuses))
}
