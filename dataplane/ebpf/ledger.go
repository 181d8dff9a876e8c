package ebpf

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
)

// ledger is how many entries those maps have that only this process writes: the kernel says of each
// write whether an entry came or went. Another number than these is somebody else's doing, of which no
// notification tells. From Linux 6.4 on a map's use of memory, which the kernel works out when it is
// asked, is that of its entries, so that a look costs the same however many there are: 0.5 ms for all
// maps (BenchmarkLook). Before, the entries are counted one by one. An entry that somebody replaced
// is not seen. Its methods are for several goroutines at once; those that write do without one too.
type ledger struct {
	mu       sync.Mutex
	accounts map[*ebpf.Map]*account // guarded by mu; nil: what the maps hold is not known
}

type account struct {
	name      string
	entries   int
	count     func() (int, error) // one by one
	none, one uint64              // bytes of the map without entries, and of each; one is 0 if they do not tell
}

// open begins anew with what was read of the maps, while nobody writes.
func (l *ledger) open(m *plumbMaps, s *state) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := l.accounts
	l.accounts = nil
	accounts := map[*ebpf.Map]*account{
		m.PlumbAddrs:    {name: plumbMapPlumbAddrs, entries: len(s.classes), count: counting[plumbAddr, uint32](m.PlumbAddrs)},
		m.PlumbFronts:   {name: plumbMapPlumbFronts, entries: len(s.fronts), count: counting[plumbFrontendKey, plumbFrontend](m.PlumbFronts)},
		m.PlumbSlots:    {name: plumbMapPlumbSlots, entries: total(s.slots), count: counting[plumbSlotKey, plumbEndpoint](m.PlumbSlots)},
		m.PlumbMembers:  {name: plumbMapPlumbMembers, entries: total(s.members), count: counting[plumbMemberKey, uint32](m.PlumbMembers)},
		m.PlumbSources:  {name: plumbMapPlumbSources, entries: total(s.sources), count: counting[plumbSourceKey, uint32](m.PlumbSources)},
		m.PlumbNetworks: {name: plumbMapPlumbNetworks, entries: len(s.networks), count: counting[plumbNetworkKey, uint32](m.PlumbNetworks)},
	}
	for m, a := range accounts {
		var err error
		if was := had[m]; was != nil {
			a.one = was.one
		} else if a.one, err = perEntry(m); err != nil {
			return fmt.Errorf("ask what an entry of map %s takes: %w", a.name, err)
		}
		uses, err := memory(m)
		if err != nil {
			return err
		}
		a.none = uses - a.one*uint64(a.entries)
	}
	l.accounts = accounts
	return nil
}

func total[K, L comparable, V any](of map[K]map[L]V) (n int) {
	for _, some := range of {
		n += len(some)
	}
	return n
}

func counting[K comparable, V any](m *ebpf.Map) func() (int, error) {
	return func() (n int, err error) {
		err = entries(m, func(K, V) { n++ })
		return n, err
	}
}

// perEntry is what the kernel counts for each entry of such a map, 0 if it counts them not as they
// come and go.
func perEntry(m *ebpf.Map) (uint64, error) {
	like, err := ebpf.NewMap(&ebpf.MapSpec{Type: m.Type(), KeySize: m.KeySize(), ValueSize: m.ValueSize(), MaxEntries: 1, Flags: m.Flags()})
	if err != nil {
		return 0, err
	}
	defer like.Close()
	before, err := memory(like)
	if err == nil {
		err = like.Put(make([]byte, m.KeySize()), make([]byte, m.ValueSize()))
	}
	if err != nil {
		return 0, err
	}
	after, err := memory(like)
	return after - before, err
}

func memory(m *ebpf.Map) (uint64, error) {
	info, err := m.Info()
	if err != nil {
		return 0, fmt.Errorf("ask what map %s takes: %w", m, err)
	}
	uses, _ := info.Memlock()
	return uses, nil
}

// close ends it until the next open: the maps are about to be closed, or are known to be others than
// they were.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts = nil
}

// write writes an entry. fresh says that it was not there, which of a trie is believed: not every kernel
// can be asked.
func (l *ledger) write(m *ebpf.Map, k, v any, fresh bool) error {
	if l == nil {
		return m.Update(k, v, ebpf.UpdateAny)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[m]
	if a == nil || m.Type() == ebpf.LPMTrie {
		err := m.Update(k, v, ebpf.UpdateAny)
		if err == nil && fresh && a != nil {
			a.entries++
		}
		return err
	}
	if !fresh {
		if err := m.Update(k, v, ebpf.UpdateExist); !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	err := m.Update(k, v, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) { // it was to go in a while
		return m.Update(k, v, ebpf.UpdateExist)
	}
	if err == nil {
		a.entries++
	}
	return err
}

// remove deletes an entry.
func (l *ledger) remove(m *ebpf.Map, k any) error {
	if l == nil {
		return m.Delete(k)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := m.Delete(k)
	if a := l.accounts[m]; a != nil && err == nil {
		a.entries--
	}
	return err
}

// wrong names the maps that have more or fewer entries than were written, and how long the processor
// was busy with it for want of a kernel that knows.
func (l *ledger) wrong() (names []string, busy time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m, a := range l.accounts {
		is, failed := true, error(nil)
		if a.one > 0 {
			var uses uint64
			uses, failed = memory(m)
			is = uses == a.none+a.one*uint64(a.entries)
		} else {
			begin := time.Now()
			var n int
			n, failed = a.count()
			is, busy = n == a.entries, busy+time.Since(begin)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("look at map %s: %w", a.name, failed))
		} else if !is {
			names = append(names, a.name)
		}
	}
	slices.Sort(names)
	return names, busy, err
}

// known tells whether there is something to look at.
func (l *ledger) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accounts != nil
}
