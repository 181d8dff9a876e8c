//go:build linux

package dptest

import "testing"

// What is this or that object's makes no other shape; what a rule does, matches or is for
// does.
func TestShape(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"ip services 10.96.0.43 . tcp . 80 : services-1", "ip services 10.96.0.5 . tcp . 443 : services-12", true},
		{"ip nat PLUMB-SVC-26M6C33H2AY5IOAR 2 -j PLUMB-SEP-3BOY2GWHMM5TJA6X", "ip nat PLUMB-SVC-T7QTIIBOSI7M23UQ 1 -j PLUMB-SEP-NY2SOC5US4KOBQS5", true},
		{"ip6 local-pods fd00:10:244:1::", "ip6 local-pods fd00:10:244:100::", true},
		{"-s 10.244.1.0/24 -j RETURN", "-s 10.0.0.0/8 -j RETURN", true},
		{"ip services 10.96.0.43 . tcp . 80 : services-1", "ip services 10.96.0.43 . udp . 80 : services-1", false},
		{"ip services 10.96.0.43 . tcp . 80 : services-1", "ip services 10.96.0.43 . tcp . 80 : drop", false},
		{"ip local-pods 10.244.2.0", "ip local-pods 10.244.2.0 (end)", false},
		{"-s 10.244.1.0/24 -j RETURN", "-s 0.0.0.0/0 -j RETURN", false},
		{"ip node-addresses 192.0.2.1", "ip6 node-addresses 2001:db8:2::1", false},
		{"ip nat PLUMB-SVC-26M6C33H2AY5IOAR 2 -j X", "ip nat PLUMB-SVL-26M6C33H2AY5IOAR 2 -j X", false},
	} {
		if got := shape(c.a) == shape(c.b); got != c.same {
			t.Errorf("%q and %q: the same shape is %t: %q, %q", c.a, c.b, got, shape(c.a), shape(c.b))
		}
	}
}
