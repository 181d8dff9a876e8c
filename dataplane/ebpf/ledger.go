package ebpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
)

// ledger is how many entries those maps have that only this process writes: the kernel says of each
// write whether an entry came or went. Another number than these is somebody else's doing, of which no
// notification tells. From Linux 6.4 on a map's use of memory, which the kernel works out when it is
// asked, is that of its entries, so that a look costs the same however many there are: 0.3 ms for all
// maps (BenchmarkLook). Before, the entries are counted one by one. An entry that somebody replaced
// is not seen. Its methods are for several goroutines at once. A nil ledger writes and removes as well, and
// keeps no account.
type ledger struct {
	mu       sync.Mutex
	accounts map[*ebpf.Map]*account // guarded by mu; nil: what the maps hold is not known
	takes    map[*ebpf.Map]takes    // guarded by mu; of the maps of the last open
}

type account struct {
	name    string
	entries int
	writes  int                          // how often an entry came or went
	count   func(*ebpf.Map) (int, error) // one by one
	takes   takes
}

// takes is what the kernel says that a map takes.
type takes struct {
	none, one uint64 // bytes of the map without entries, and of each; one is 0 if they do not tell
}

func (t takes) with(entries int) uint64 { return t.none + t.one*uint64(entries) }

// open begins anew with what was read of the maps, while nobody writes. What somebody deleted since then
// is noticed at the next look: what a map takes without entries is not reckoned from those that were read.
func (l *ledger) open(m *plumbMaps, s *state) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.takes
	l.accounts, l.takes = nil, map[*ebpf.Map]takes{}
	accounts := map[*ebpf.Map]*account{
		m.PlumbAddrs:    {name: plumbMapPlumbAddrs, entries: len(s.classes), count: counting[plumbAddr, uint32]},
		m.PlumbFronts:   {name: plumbMapPlumbFronts, entries: len(s.fronts), count: counting[plumbFrontendKey, plumbFrontend]},
		m.PlumbSlots:    {name: plumbMapPlumbSlots, entries: total(s.slots), count: counting[plumbSlotKey, plumbEndpoint]},
		m.PlumbMembers:  {name: plumbMapPlumbMembers, entries: total(s.members), count: counting[plumbMemberKey, uint32]},
		m.PlumbSources:  {name: plumbMapPlumbSources, entries: total(s.sources), count: counting[plumbSourceKey, uint32]},
		m.PlumbNetworks: {name: plumbMapPlumbNetworks, entries: len(s.networks), count: counting[plumbNetworkKey, uint32]},
	}
	for m, a := range accounts {
		var is bool
		if a.takes, is = known[m]; !is {
			var err error
			if a.takes, err = taking(m); err != nil {
				return fmt.Errorf("ask what map %s takes: %w", a.name, err)
			}
		}
		if err := a.check(m); err != nil {
			return fmt.Errorf("look at map %s: %w", a.name, err)
		}
		l.takes[m] = a.takes
	}
	l.accounts = accounts
	return nil
}

// check mends what a map takes without entries where the kernel says more or less of just as many entries
// than it did of another such map: else each look would find that, and have everything compared, for ever.
// Whether the entries are those that were read is not its business.
func (a *account) check(m *ebpf.Map) error {
	uses, err := memory(m)
	if err != nil || a.takes.one == 0 || uses == a.takes.with(a.entries) {
		return err
	}
	n, err := a.count(m)
	if err != nil {
		return err
	}
	again, err := memory(m)
	if err == nil && again == uses { // nobody wrote meanwhile
		a.takes.none = uses - a.takes.one*uint64(n)
	}
	return err
}

func total[K, L comparable, V any](of map[K]map[L]V) (n int) {
	for _, some := range of {
		n += len(some)
	}
	return n
}

func counting[K comparable, V any](m *ebpf.Map) (n int, err error) {
	err = entries(m, func(K, V) { n++ })
	return n, err
}

// taking asks what the kernel says of such a map without entries, and with one: of the same size, for by that it
// has a table.
func taking(m *ebpf.Map) (t takes, err error) {
	like, err := ebpf.NewMap(&ebpf.MapSpec{Type: m.Type(), KeySize: m.KeySize(), ValueSize: m.ValueSize(), MaxEntries: m.MaxEntries(), Flags: m.Flags()})
	if err != nil {
		return t, err
	}
	defer like.Close()
	if t.none, err = memory(like); err != nil {
		return t, err
	}
	if err := like.Put(make([]byte, m.KeySize()), make([]byte, m.ValueSize())); err != nil {
		return t, err
	}
	uses, err := memory(like)
	t.one = uses - t.none
	return t, err
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

// add is called with mu held.
func (a *account) add(entries int) {
	a.entries += entries
	a.writes++
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
			a.add(1)
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
		a.add(1)
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
		a.add(-1)
	}
	return err
}

// wrong names the maps that have more or fewer entries than were written, and how long the processor
// was busy with it for want of a kernel that knows.
func (l *ledger) wrong() (names []string, busy time.Duration, err error) {
	l.mu.Lock()
	accounts := maps.Clone(l.accounts)
	l.mu.Unlock()
	for m, a := range accounts {
		begin := time.Now()
		is, counted, failed := l.right(m, a)
		if counted {
			busy += time.Since(begin)
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

// right tells whether a map has as many entries as were written, and whether these were counted one by one.
// That takes long: who writes does not wait for it, and if one did meanwhile it says nothing until the next look.
func (l *ledger) right(m *ebpf.Map, a *account) (is, counted bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accounts[m] != a { // closed meanwhile
		return true, false, nil
	}
	if a.takes.one > 0 {
		uses, err := memory(m)
		return uses == a.takes.with(a.entries), false, err
	}
	own, err := m.Clone() // which is not closed with the Target
	if err != nil {
		return false, false, err
	}
	defer own.Close()
	entries, writes := a.entries, a.writes
	l.mu.Unlock()
	n, err := a.count(own)
	l.mu.Lock()
	return n == entries || a.writes != writes || l.accounts[m] != a, true, err
}
