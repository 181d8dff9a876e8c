package haproxy

import "testing"

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		said, version string
		old           bool
	}{
		{"HAProxy version 2.6.12-1+deb12u4 2026/05/01 - https://haproxy.org/\nStatus: long-term", "2.6.12-1+deb12u4", false},
		{"HAProxy version 3.2.5-1 2025/09/22", "3.2.5-1", false},
		{"HAProxy version 2.4.24-0ubuntu0.22.04.2 2024/10/31", "2.4.24-0ubuntu0.22.04.2", true},
		{"HA-Proxy version 1.8.27 2020/11/06", "1.8.27", true},
		{"HAProxy version x", "x", true},
	} {
		got, err := VersionIn(c.said)
		if err != nil || got != c.version {
			t.Errorf("%q: %q, %v", c.said, got, err)
		}
		if err := CheckVersion(got); (err != nil) != c.old {
			t.Errorf("%s: %v", got, err)
		}
	}
	for version, loses := range map[string]bool{"2.6.12-1+deb12u4": false, "2.8.5": true, "3.0.11": true, "3.2.26-1": true, "x": true} {
		if got := LosesFirstRow(version); got != loses {
			t.Errorf("%s loses a row: %t", version, got)
		}
	}
	if v, err := VersionIn("no HAProxy"); err == nil {
		t.Errorf("version %q", v)
	}
}
