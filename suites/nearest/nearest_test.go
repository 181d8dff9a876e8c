package nearest

import "testing"

func TestTo(t *testing.T) {
	known := []string{"plumb-nftables:fallback", "plumb-iptables:fallback", "existing", "all"}
	for word, want := range map[string]string{
		"plumb-nftable:fallback": "plumb-nftables:fallback", "eixsting": "existing", "lal": "all", "plumb-iptabels:fallback": "plumb-iptables:fallback", "exsting": "existing",
		"al": "", "e9": "", "alll": "all", "existing": "existing", "cilium": "", "": "", "plumb-ebpf": "",
	} {
		if got := To(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Hint("exsting", known); got != "; did you mean existing?" {
		t.Errorf("hint %q", got)
	}
	if got := Hint("cilium", known); got != "" {
		t.Errorf("hint %q", got)
	}
}
