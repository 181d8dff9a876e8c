package userspace

// NewInParts is a Target that writes a change of a hundred frontends in several transactions.
func NewInParts(cfg Config) *Target {
	target := New(cfg)
	target.perWrite = 150
	return target
}
