package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPorts(t *testing.T) {
	for _, text := range []string{"", "0", "65535", "1-3,5,65534-65535", "16384-29999"} {
		p, err := ParsePorts(text)
		if err != nil || p.String() != text {
			t.Errorf("%q is read as %q, %v", text, p, err)
		}
	}
	for _, text := range []string{",", "1,", "3-1", "65536", "-1", "1-", "a", "1-2-3"} {
		if p, err := ParsePorts(text); err == nil {
			t.Errorf("%q is read as %q", text, p)
		}
	}
	some, err := ParsePorts("10-20,30")
	if err != nil {
		t.Fatal(err)
	}
	if got := some.With(PortRange(18, 25)).String(); got != "10-25,30" {
		t.Errorf("with 18-25: %s", got)
	}
	if got := PortRange(18, 25).Without(some).String(); got != "21-25" {
		t.Errorf("what 18-25 has beside: %s", got)
	}
}

func TestReserve(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, reservedPorts)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Reserved(root); err == nil || !strings.Contains(err.Error(), "read reserved ports: ") {
		t.Errorf("where there is no such file: %v", err)
	}
	if err := Reserve(root, PortRange(7, 9)); err != nil {
		t.Fatal(err)
	}
	if got, err := Reserved(root); err != nil || got.String() != "7-9" {
		t.Errorf("%s, %v", got, err)
	}
}
