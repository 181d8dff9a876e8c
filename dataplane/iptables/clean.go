package iptables

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	lib "github.com/google/nftables"

	"github.com/plumbline/plumbline/dataplane/spaces"
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
			if flavour == Legacy {
				has, err := tool.hasLegacyTables(v6)
				if err != nil {
					errs = append(errs, fmt.Errorf("clean iptables (%s, %s): %w", flavour, family(v6), err))
				}
				if !has {
					continue // and looking would make them, or need NET_RAW in vain
				}
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
	if t.large(s, largeScript) {
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

// Left names what Clean would remove: the tables that have chains of ours. The nft flavour's
// are asked of the kernel itself; legacy's of its programs, where the kernel has such tables
// and they are installed. With an error it is what could be found.
func Left(netns int) ([]string, error) {
	out, err := leftOfNFT(netns)
	if err != nil {
		err = fmt.Errorf("look for chains of iptables (nft): %w", err)
	}
	more, failed := leftOfLegacy(netns)
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("look for chains of iptables (legacy): %w", failed))
	}
	return append(out, more...), err
}

func leftOfNFT(netns int) ([]string, error) {
	var out []string
	for _, v6 := range []bool{false, true} {
		chains, err := chainsOfNFT(netns, v6)
		if err != nil {
			return out, err
		}
		for _, id := range chains {
			at := fmt.Sprintf("chains %s* of table %s %s", Prefix, family(v6), id.table)
			if !id.builtin() && (id.table == natTable || id.table == filterTable) && !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	return out, nil
}

// chainsOfNFT are all chains of nftables of a family, those of iptables-nft among them.
func chainsOfNFT(netns int, v6 bool) ([]chainID, error) {
	c, err := lib.New(lib.WithNetNSFd(netns), lib.AsLasting())
	if err != nil {
		return nil, err
	}
	defer c.CloseLasting()
	f := lib.TableFamilyIPv4
	if v6 {
		f = lib.TableFamilyIPv6
	}
	chains, err := c.ListChainsOfTableFamily(f)
	if err != nil {
		return nil, err
	}
	out := make([]chainID, 0, len(chains))
	for _, ch := range chains {
		out = append(out, chainID{ch.Table.Name, ch.Name})
	}
	return out, nil
}

func leftOfLegacy(netns int) ([]string, error) {
	t, err := newTool(exec.Command, Legacy, netns)
	if err != nil {
		return nil, err
	}
	var out []string
	var errs error
	for _, v6 := range t.families {
		have, err := t.readLegacy(v6)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", family(v6), err))
		}
		for _, table := range []string{natTable, filterTable} {
			for id := range have {
				if at := fmt.Sprintf("chains %s* of table %s (%s)", Prefix, table, t.program(v6, "save")); id.table == table && strings.HasPrefix(id.name, Prefix) && !slices.Contains(out, at) {
					out = append(out, at)
				}
			}
		}
	}
	return out, errs
}

// readLegacy reads what is there of a family, which may be nothing.
func (t *tool) readLegacy(v6 bool) (model, error) {
	has, err := t.hasLegacyTables(v6)
	if err != nil || !has {
		return nil, err
	}
	if _, err := exec.LookPath(t.program(v6, "save")); err != nil {
		return nil, nil // then nothing can have been written with it
	}
	return t.read(exec.Command, v6)
}

// hasLegacyTables: reading a table with a legacy program makes it.
func (t *tool) hasLegacyTables(v6 bool) (bool, error) {
	name := "ip_tables_names"
	if v6 {
		name = "ip6_tables_names"
	}
	var text []byte
	err := spaces.Do(t.netns, func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/" + name)
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return len(text) > 0, err
}
