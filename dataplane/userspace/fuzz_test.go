package userspace

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzElement: whatever the kernel holds in a set of the name of one of ours, a dump shows it in a line, and
// what is not whole as that.
func FuzzElement(f *testing.F) {
	f.Add(false, byte(0), "\x0a\x60\x00\x01\x06\x00\x00\x00\x00\x50\x00\x00", "", false)
	f.Add(true, byte(1), strings.Repeat("k", 24+16), strings.Repeat("t", 24+16), true)
	f.Add(false, byte(setSources), "", "x", false)
	f.Add(false, byte(2), "\x00\x50", "", false)
	f.Fuzz(func(t *testing.T, v6 bool, set byte, key, to string, past bool) {
		e := Element{v6: v6, set: setID(set) % setCount, key: key, to: to, past: past}
		fam := familyOf(v6)
		spec := fam.specs()[e.set]
		line, size := e.String(), keySize(spec)
		if !strings.HasPrefix(line, fam.text+" "+spec.name+" ") || strings.Contains(line, "\n") || past != strings.HasSuffix(line, " (end)") {
			t.Errorf("%#v is shown as %q", e, line)
		}
		if whole := len(key) == size && (to == "" || len(to) == size && spec.interval); whole == strings.Contains(line, "not whole") {
			t.Errorf("%#v, whole %t, is shown as %q", e, whole, line)
		}
	})
}

// FuzzJournal: whatever is in a journal, it is told or counted, holds up no other, and is gone then; what is
// counted is what a process can have had.
func FuzzJournal(f *testing.F) {
	whole := make([]byte, journalSize)
	counter(whole[:8]).Store(4)
	counter(whole[8:]).Store(1 << 20)
	f.Add(whole)
	f.Add(append(whole, "more"...))
	f.Add(whole[:journalSize-1])
	f.Add([]byte{})
	f.Add(append(make([]byte, journalSize), "more"...)) // nothing was counted
	f.Add([]byte(strings.Repeat("\xff", journalSize)))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		good := make([]byte, journalSize)
		counter(good[:8]).Store(3)
		counter(good[8:]).Store(2)
		for name, text := range map[string][]byte{"1": text, "2": good} {
			if err := os.WriteFile(filepath.Join(dir, journalPrefix+name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tcp, udp, damaged := inherit(dir)
		counted := text[:min(journalSize, len(text))]
		if none := tcp == 3 && udp == 2; none != (len(damaged) > 0 || string(counted) == string(make([]byte, journalSize))) {
			t.Errorf("of %x and 3 and 2 there are %d and %d, and damaged is %v", text, tcp, udp, damaged)
		}
		if tcp < 3 || udp < 2 || tcp > math.MaxUint32+3 || udp > math.MaxUint32+2 {
			t.Errorf("of %x and 3 and 2 there are %d and %d", text, tcp, udp)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	})
}
