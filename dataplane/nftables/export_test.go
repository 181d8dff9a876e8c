package nftables

import "testing"

// NewNarrow is a Target whose socket is granted so little that a change of a hundred Services
// takes several transactions.
func NewNarrow(t *testing.T, cfg Config) *Target {
	target := New(cfg)
	target.dialled = narrow(t)
	return target
}
