//go:build linux

package others

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// entry is one as the kernel gives it, with what its target has to say.
func (f legacyFamily) entry(target, says string) []byte {
	out := make([]byte, f.target+24+targetHead+len(says)+1)
	binary.NativeEndian.PutUint16(out[f.target:], uint16(f.target+24))
	binary.NativeEndian.PutUint16(out[f.target+2:], uint16(len(out)))
	copy(out[f.target+24+2:], target)
	copy(out[f.target+24+targetHead:], says)
	return out
}

// FuzzLegacyChains: whatever a table of iptables-legacy is, no chain is found whose name is not in it as that
// of a chain, and none of the chains before what is not understood is missed.
func FuzzLegacyChains(f *testing.F) {
	for _, fam := range legacyFamilies {
		whole := slices.Concat(fam.entry("ERROR", "OTHER"), fam.entry("", ""), fam.entry("ERROR", "KUBE-SVC"), fam.entry("ACCEPT", ""), fam.entry("", ""), fam.entry("ERROR", "ERROR"))
		if got := fam.chains(whole); !slices.Equal(got, []string{"KUBE-SVC"}) {
			f.Fatalf("a seed has %q", got)
		}
		f.Add(whole)
		f.Add(whole[:len(whole)-40])
		f.Add(whole[fam.target:])
		f.Add(slices.Concat(fam.entry("", ""), fam.entry("", ""), fam.entry("ERROR", "A"))) // of no chain
		short := fam.entry("ERROR", "ends before its target does")
		binary.NativeEndian.PutUint16(short[fam.target+2:], uint16(fam.target+24+8))
		f.Add(short)
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		for _, fam := range legacyFamilies {
			found := fam.chains(blob)
			for _, name := range found {
				if name == "" || !bytes.Contains(blob, []byte("ERROR")) || !bytes.Contains(blob, []byte(name)) {
					t.Errorf("%s: chain %q is found", fam.program, name)
				}
			}
			before := slices.Concat(fam.entry("ERROR", "PLUMB-SVC"), fam.entry("ACCEPT", ""), fam.entry("", ""), fam.entry("ERROR", ""))
			if got := fam.chains(append(before, blob...)); len(got) == 0 || got[0] != "PLUMB-SVC" || !slices.Equal(got[1:], found) {
				t.Errorf("%s: after PLUMB-SVC there are %q, alone %q", fam.program, got, found)
			}
		}
	})
}
