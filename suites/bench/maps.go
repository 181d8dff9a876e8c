//go:build linux

package bench

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// pinnedMaps looks into a node's pinned maps, which tell nobody when they change: a change has
// come when it is seen, which is up to a look later. What was written on the way is not counted.
type pinnedMaps struct {
	node   *netns.NS
	pinned *ebpf.Pinned // nil: no agent has pinned any yet
	now    edit
	stop   chan struct{} // ends the looks of who awaits; nil: nobody does
	ended  chan struct{} // they have

	mu    sync.Mutex
	wrong error // guarded by mu; why nobody looks any more
}

// lookEvery is how long nobody looks after each look: a timer's least is about as much again.
const lookEvery = 20 * time.Microsecond

func (m *pinnedMaps) reset(e edit) error {
	m.now = e
	return m.open()
}

func (m *pinnedMaps) open() (err error) {
	if m.pinned == nil {
		m.pinned, err = ebpf.OpenPinned(m.node.FD())
	}
	return err
}

// there tells whether all frontends lead to the endpoint that is fresh and none to that which is gone.
func (m *pinnedMaps) there(e edit) (bool, error) {
	for _, k := range e.keys {
		for _, a := range e.fresh {
			if leads, err := m.pinned.Leads(k, netip.AddrPortFrom(a, podPort)); err != nil || !leads {
				return false, err
			}
		}
		if !e.gone.IsValid() {
			continue
		}
		if leads, err := m.pinned.Leads(k, netip.AddrPortFrom(e.gone, podPort)); err != nil || leads {
			return false, err
		}
	}
	return true, nil
}

func (m *pinnedMaps) settle(deadline time.Time, over func() error) (seen, error) {
	for looked := time.Now(); ; time.Sleep(lookEvery) {
		there, err := m.there(m.now)
		now := time.Now()
		switch {
		case err != nil:
			return seen{}, err
		case there:
			return seen{commits: 1, last: now}, nil
		case now.After(deadline):
			return seen{}, nil
		}
		if now.Sub(looked) > settleTick {
			if err := over(); err != nil {
				return seen{}, err
			}
			looked = now
		}
	}
}

func (m *pinnedMaps) look(a *await) error {
	if m.stop != nil {
		close(m.stop)
		<-m.ended
		m.stop = nil
	}
	if err := m.failed(); err != nil || a == nil {
		return err
	}
	if err := m.open(); err != nil {
		return err
	}
	m.stop, m.ended = make(chan struct{}), make(chan struct{})
	go func(stop, ended chan struct{}) {
		defer close(ended)
		err := m.lookFor(a, stop)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.wrong = err
	}(m.stop, m.ended)
	return nil
}

// lookFor looks for all that is awaited, over and over.
func (m *pinnedMaps) lookFor(a *await, stop chan struct{}) error {
	var all []awaited
	for ; ; time.Sleep(lookEvery) {
		select {
		case <-stop:
			return nil
		default:
		}
		all = a.awaited(all[:0])
		for _, one := range all {
			there, err := m.there(one.edit)
			if err != nil {
				return err
			}
			if there {
				a.found(one.number, time.Now())
			}
		}
	}
}

func (m *pinnedMaps) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wrong
}

func (m *pinnedMaps) Close() error {
	err := m.look(nil)
	if m.pinned != nil {
		err = errors.Join(err, m.pinned.Close())
	}
	return err
}
