package ebpf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// ForgetAnswers deletes the entries that what endpoints send meets, as a map without room may, and
// tells how many there were.
func ForgetAnswers(pins string) (n int) {
	m, err := open(pins)
	if err != nil || m == nil {
		return -1
	}
	defer m.Close()
	var keys []plumbFlowKey
	err = entries(m.PlumbFlows, func(k plumbFlowKey, f plumbFlow) {
		if f.Answer == 1 {
			keys = append(keys, k)
		}
	})
	if err != nil {
		return -1
	}
	for _, k := range keys {
		if m.PlumbFlows.Delete(k) == nil {
			n++
		}
	}
	return n
}

// Age lets time go by for connections, fragments and clients, and for what sockets have sent.
func Age(pins string, d time.Duration) error {
	m, err := open(pins)
	if err != nil || m == nil {
		return fmt.Errorf("no maps: %w", err)
	}
	defer m.Close()
	sent, err := ebpf.LoadPinnedMap(filepath.Join(layoutFolder(pins), socketMapPlumbSent), nil)
	if err == nil {
		err = older[socketSentKey](sent, func(s *socketSent) { s.Seen -= uint64(d) })
		closeAll(sent)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err,
		older[plumbFlowKey](m.PlumbFlows, func(f *plumbFlow) { f.Seen -= uint64(d) }),
		older[plumbFragmentKey](m.PlumbFrags, func(f *plumbPorts) { f.Seen -= uint64(d) }),
		older[plumbAffinityKey](m.PlumbAffinity, func(a *plumbAffinity) { a.Used -= uint64(d) }))
}

func older[K comparable, V any](m *ebpf.Map, change func(*V)) error {
	all := map[K]V{}
	if err := entries(m, func(k K, v V) { all[k] = v }); err != nil {
		return err
	}
	for k, v := range all {
		change(&v)
		if err := m.Update(k, v, ebpf.UpdateExist); err != nil {
			return err
		}
	}
	return nil
}

// OwnPods tells by how many devices own pods come.
func OwnPods(pins string) (n int, err error) {
	m, err := open(pins)
	if err != nil || m == nil {
		return 0, fmt.Errorf("no maps: %w", err)
	}
	defer m.Close()
	err = entries(m.PlumbDevices, func(_ uint32, d plumbDevice) { n += int(d.Flags & deviceOwnPods) })
	return n, err
}

// Look is what Watch does when something is said of devices.
func (t *Target) Look(indexes ...int) (damaged bool, err error) { return t.mend(indexes) }

// MasqueradeOf are the addresses that a device gives to masqueraded connections.
func MasqueradeOf(pins string, index int) ([]netip.Addr, error) {
	m, err := open(pins)
	if err != nil || m == nil {
		return nil, err
	}
	defer m.Close()
	var d plumbDevice
	err = m.PlumbDevices.Lookup(uint32(index), &d)
	return []netip.Addr{fromAddr(d.Masquerade[0]), fromAddr(d.Masquerade[1])}, err
}

// ForgetSlots deletes the endpoints of a frontend's lists, as if the packet had found lists of long
// ago.
func ForgetSlots(pins string, k plan.Key) error {
	m, err := open(pins)
	if err != nil || m == nil {
		return fmt.Errorf("no maps: %w", err)
	}
	defer m.Close()
	var v plumbFrontend
	err = m.PlumbFronts.Lookup(toKey(k), &v)
	for _, r := range v.Routes[:2] {
		for i := range r.N {
			err = errors.Join(err, m.PlumbSlots.Delete(plumbSlotKey{List: r.List, Index: i}))
		}
	}
	return err
}

// CountedAt is what is counted in the maps that are pinned, also of a process that has ended.
func CountedAt(pins string) (Counted, error) {
	m, err := openMaps(pins)
	if err != nil {
		return Counted{}, err
	}
	defer m.Close()
	return m.counted()
}

// Rescue is what Watch does after a change.
func (t *Target) Rescue() error { return t.rescue() }

// Sweep is what Watch does from time to time.
func (t *Target) Sweep(ctx context.Context) error { return t.sweep(ctx, 0) }

// Fill puts so many connections into the maps that no packet belongs to, open ones or not.
func Fill(pins string, from, to int, open bool) error {
	m, err := openMaps(pins)
	if err != nil {
		return err
	}
	defer m.Close()
	for i := from; i < to && err == nil; i++ {
		k := plumbFlowKey{Dport: 1, Proto: 6}
		k.Src.W[3] = uint32(i)
		f := plumbFlow{Seen: uptime(), State: flowEstablished}
		if !open {
			f.Seen -= uint64(tcpFor)
		}
		err = m.PlumbFlows.Put(k, f)
	}
	return err
}

// Forgotten deletes such connections again.
func Forgotten(pins string, from, to int) error {
	m, err := openMaps(pins)
	if err != nil {
		return err
	}
	defer m.Close()
	for i := from; i < to; i++ {
		k := plumbFlowKey{Dport: 1, Proto: 6}
		k.Src.W[3] = uint32(i)
		if e := m.PlumbFlows.Delete(k); e != nil && !errors.Is(e, ebpf.ErrKeyNotExist) {
			err = e
		}
	}
	return err
}

func openMaps(pins string) (*plumbMaps, error) {
	m, err := open(pins)
	if err == nil && m == nil {
		err = errors.New("no maps")
	}
	return m, err
}

// HaveTCX tells whether the kernel has tcx.
func HaveTCX() (bool, error) { return haveTCX() }

// Wrong names the maps that have other entries than were written.
func (t *Target) Wrong() ([]string, error) {
	names, _, err := t.ledger.wrong()
	return names, err
}

// CountOneByOne is how a target counts entries where the kernel does not tell what they take.
func (t *Target) CountOneByOne() {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	for _, a := range t.ledger.accounts {
		a.takes.one = 0
	}
}

// NeverGlance has Watch look for programs only where something is said of a device. It is called before Watch.
func (t *Target) NeverGlance() { t.glance = time.Hour }

// Tells tells whether the kernel says what entries take.
func (t *Target) Tells() bool {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	for _, a := range t.ledger.accounts {
		if a.takes.one == 0 {
			return false
		}
	}
	return len(t.ledger.accounts) > 0
}

// Refill is what a complete Apply begins with.
func (t *Target) Refill(names ...string) {
	t.short = names
	t.refill()
}

// Taken is what Watch asks four times a second: it names maps, and pins that it has put back.
func (t *Target) Taken() ([]string, error) {
	short, _, err := t.taken()
	back, failed := t.unpinned()
	return append(short, back...), errors.Join(err, failed)
}

// LookAtAll is what Watch does twice a second.
func (t *Target) LookAtAll() (damaged bool, err error) { return t.lookAt(nil) }

// LayoutFolder is where the pins of this build's layout are.
func LayoutFolder(pins string) string { return layoutFolder(pins) }

// AnotherLayout is what a build with another layout has, until back is called. No other test may run
// meanwhile.
func AnotherLayout(name string) (back func()) {
	was := layout
	layout = name
	return func() { layout = was }
}

// Named follows plans as Apply does.
type Named struct{ n *named }

func NewNamed() Named { return Named{newNamed()} }

func (n Named) Follow(old, new *plan.Plan, now time.Time) { n.n.follow(old, new, now) }

func (n Named) Due(now time.Time, grace time.Duration) (map[netip.AddrPort]bool, time.Duration) {
	due, next := n.n.due(now, grace)
	n.n.done(due)
	return due, next
}
