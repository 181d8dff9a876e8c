package iptables

import (
	"errors"
	"fmt"
	"os/exec"
)

// Clean removes our chains and the jumps to them, and nothing else, in both
// flavours as far as their programs are installed.
func Clean(netns int) error {
	var errs []error
	for _, flavour := range []Flavour{NFT, Legacy} {
		tool, err := newTool(exec.Command, flavour, netns)
		if err != nil {
			return fmt.Errorf("clean iptables: %w", err)
		}
		for _, v6 := range tool.families {
			if _, err := exec.LookPath(tool.program(v6, "restore")); err != nil {
				continue // then nothing can have been written with it
			}
			if err := tool.clean(v6); err != nil {
				errs = append(errs, fmt.Errorf("clean iptables (%s, %s): %w", flavour, family(v6), err))
			}
		}
	}
	return errors.Join(errs...)
}

func (t *tool) clean(v6 bool) error {
	have, err := t.read(exec.Command, v6)
	if err != nil {
		return err
	}
	s := diff(have, model{})
	parts := []*script{s}
	if t.large(s) {
		parts = s.removals(batchLines)
	}
	for _, p := range parts {
		if p.empty() {
			continue
		}
		if err := t.restore(exec.Command, v6, text(p.lines())); err != nil {
			return err
		}
	}
	return nil
}
