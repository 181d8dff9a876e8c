package iptables

import "strings"

// NewInParts is a Target that writes a change of a hundred Services in several restores, where
// its flavour takes parts, and whose restores may end after each of their sections, which are
// transactions of their own.
func NewInParts(cfg Config) *Target {
	target := New(cfg)
	target.by = partSizes{large: 100, frontends: 200, lines: 2000}
	target.ends = func(do command, v6 bool, input string) error {
		const end = "COMMIT\n"
		for i, section := range strings.Split(strings.TrimSuffix(input, end), end) {
			if i > 0 {
				if err := target.mayFail(); err != nil {
					return err
				}
			}
			if err := target.tool.restore(do, v6, section+end); err != nil {
				return err
			}
		}
		return nil
	}
	return target
}
