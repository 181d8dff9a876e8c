package ebpf

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/fixtures/need"
)

// someMaps are maps with two frontends, an address and a network each, and what was read of them.
func someMaps(t *testing.T) (*plumbMaps, *state) {
	t.Helper()
	need.Root(t)
	spec, err := Sizes{Frontends: 64, Endpoints: 64, Sources: 64, Clients: 64, Connections: 64}.spec()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range spec.Maps {
		m.Pinning = ebpf.PinNone
	}
	m := &plumbMaps{}
	if err := spec.LoadAndAssign(m, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	w := &writer{}
	for i := range uint16(2) {
		put(w, m.PlumbFronts, plumbFrontendKey{Port: i}, plumbFrontend{})
		put(w, m.PlumbAddrs, toAddr(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})), uint32(1))
		put(w, m.PlumbNetworks, plumbNetworkKey{Bits: 120 + uint32(i)}, uint32(1))
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	s, err := read(m)
	if err != nil {
		t.Fatal(err)
	}
	return m, s
}

// wrongs are the maps that a ledger names, which are to be these.
func wrongs(t *testing.T, l *ledger, when string, want ...string) {
	t.Helper()
	if names, _, err := l.wrong(); err != nil || !slices.Equal(names, want) {
		t.Errorf("%s are named %q, %v, want %q", when, names, err, want)
	}
}

// What is deleted after the maps were read, and before their accounts were opened, is noticed, as often as it
// happens.
func TestDeletedSinceRead(t *testing.T) {
	m, s := someMaps(t)
	l := &ledger{}
	for i := range uint16(2) {
		if err := l.open(m, s); err != nil {
			t.Fatal(err)
		}
		wrongs(t, l, "before anything")
		if err := m.PlumbFronts.Delete(plumbFrontendKey{Port: i}); err != nil {
			t.Fatal(err)
		}
		l.close()
		if err := l.open(m, s); err != nil {
			t.Fatal(err)
		}
		wrongs(t, l, "after a frontend has gone", plumbMapPlumbFronts)
		var err error
		if s, err = read(m); err != nil {
			t.Fatal(err)
		}
	}
}

// Where a map takes more for its entries than another such map would, that is no reason to name it for ever.
func TestTakesMore(t *testing.T) {
	m, s := someMaps(t)
	l := &ledger{}
	if err := l.open(m, s); err != nil {
		t.Fatal(err)
	}
	is := l.takes[m.PlumbNetworks]
	if is.one == 0 {
		t.Skip("this kernel does not tell what entries take (Linux 6.4)")
	}
	l.takes[m.PlumbNetworks] = takes{none: is.none - 1, one: is.one}
	if err := l.open(m, s); err != nil {
		t.Fatal(err)
	}
	wrongs(t, l, "where one takes more")
	if l.takes[m.PlumbNetworks] != is {
		t.Errorf("a network map takes %v, want %v", l.takes[m.PlumbNetworks], is)
	}
}

// What a map takes is asked once, and not of those that are there no more.
func TestTakesAskedOnce(t *testing.T) {
	m, s := someMaps(t)
	l := &ledger{takes: map[*ebpf.Map]takes{{}: {}}}
	if err := l.open(m, s); err != nil {
		t.Fatal(err)
	}
	l.takes[m.PlumbFronts] = takes{} // which no kernel says
	l.close()
	if err := l.open(m, s); err != nil {
		t.Fatal(err)
	}
	if got := l.takes[m.PlumbFronts]; got != (takes{}) {
		t.Errorf("it was asked again: %v", got)
	}
	if len(l.takes) != 6 {
		t.Errorf("%d maps are known, want 6", len(l.takes))
	}
}

// Who writes does not wait while entries are counted, and a count into which one wrote says nothing; nor does one
// of maps that are closed meanwhile.
func TestWriteWhileCounted(t *testing.T) {
	m, s := someMaps(t)
	l := &ledger{}
	if err := l.open(m, s); err != nil {
		t.Fatal(err)
	}
	a := l.accounts[m.PlumbFronts]
	a.takes.one = 0
	count, wrote := a.count, make(chan error, 1)
	a.count = func(own *ebpf.Map) (int, error) {
		go func() { wrote <- l.write(m.PlumbFronts, plumbFrontendKey{Port: 9}, plumbFrontend{}, true) }()
		select {
		case err := <-wrote:
			n, failed := count(own)
			return n, errors.Join(err, failed)
		case <-time.After(10 * time.Second):
			return 0, errors.New("who writes waits for the count")
		}
	}
	wrongs(t, l, "while one more was written")
	a.count = count
	wrongs(t, l, "after that")
	if err := m.PlumbFronts.Delete(plumbFrontendKey{Port: 9}); err != nil {
		t.Fatal(err)
	}
	wrongs(t, l, "after it has gone", plumbMapPlumbFronts)
	a.count = func(own *ebpf.Map) (int, error) {
		l.close()
		_ = m.PlumbFronts.Close()
		return count(own)
	}
	wrongs(t, l, "while all was closed")
}
