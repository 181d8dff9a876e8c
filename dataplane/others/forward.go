//go:build linux

package others

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	lib "github.com/google/nftables"
)

// ForwardDrops names, in order, what drops forwarded packets of the namespace that none of its rules lets
// through: base chains of nftables at hook forward whose policy is drop, iptables' among them, and
// chain FORWARD of iptables-legacy. Who has pods behind such a chain needs rules in it that accept
// what they send and get; whether there are some is not looked at. As Docker does it, on its host.
// It takes NET_ADMIN and no other capability.
func ForwardDrops(cfg Config) ([]string, error) {
	out, err := steady(nftForward)
	old, failed := steady(func() ([]string, error) { return legacyForward(cfg) })
	out = append(out, old...)
	slices.Sort(out)
	return out, errors.Join(err, failed)
}

func nftForward() ([]string, error) {
	conn, err := lib.New(lib.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("look at nftables: %w", err)
	}
	defer conn.CloseLasting()
	var out []string
	for _, family := range families() {
		chains, err := conn.ListChainsOfTableFamily(family.TableFamily)
		if err != nil {
			return out, fmt.Errorf("look at nftables: list chains of family %s: %w", family.text, err)
		}
		for _, c := range chains {
			if c.Hooknum != nil && *c.Hooknum == *lib.ChainHookForward && c.Policy != nil && *c.Policy == lib.ChainPolicyDrop {
				out = append(out, fmt.Sprintf("chain %s of table %s %s", c.Name, family.text, c.Table.Name))
			}
		}
	}
	return out, nil
}

func legacyForward(cfg Config) ([]string, error) {
	var out []string
	var errs []error
	for _, f := range legacyFamilies {
		names, err := os.ReadFile(cfg.proc() + "/thread-self/net/" + f.names)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("look at %s: %w", f.program, err))
		}
		for table := range strings.FieldsSeq(string(names)) {
			drops, err := f.forwardDrops(table)
			if err != nil {
				errs = append(errs, fmt.Errorf("look at table %s of %s: %w", table, f.program, err))
			} else if drops {
				out = append(out, fmt.Sprintf("chain FORWARD of table %s (%s)", table, f.program))
			}
		}
	}
	return out, errors.Join(errs...)
}

// In struct ipt_getinfo: the hooks that a table has, and of each where its last entry is, the
// policy. A verdict that drops is the negative of NF_DROP, less one.
// [include/uapi/linux/netfilter/x_tables.h, netfilter_ipv4/ip_tables.h]
const (
	infoHooks     = tableName
	infoUnderflow = infoHooks + 4 + 5*4
	hookForward   = 2 // NF_INET_FORWARD
	verdictDrop   = -1
)

func (f legacyFamily) forwardDrops(table string) (bool, error) {
	info, blob, err := f.read(table)
	if err != nil || binary.NativeEndian.Uint32(info[infoHooks:])&(1<<hookForward) == 0 {
		return false, err
	}
	at := int(binary.NativeEndian.Uint32(info[infoUnderflow+4*hookForward:]))
	if at+f.target+2 > len(blob) {
		return false, fmt.Errorf("its policy is at %d of %d bytes", at, len(blob))
	}
	at += int(binary.NativeEndian.Uint16(blob[at+f.target:])) + targetHead
	if at+4 > len(blob) {
		return false, fmt.Errorf("its policy is at %d of %d bytes", at, len(blob))
	}
	return int32(binary.NativeEndian.Uint32(blob[at:])) == verdictDrop, nil
}
