//go:build linux

package others

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// legacy looks at the tables of iptables-legacy.
func legacy(cfg Config) ([]Trace, error) {
	return legacyChains(cfg, func(_, chain string) string { return ofChain(chain) })
}

// legacyChains looks at the tables as the kernel gives them to its programs. Those that it
// has not are not asked for: that would make them.
func legacyChains(cfg Config, of func(table, chain string) string) ([]Trace, error) {
	var out []Trace
	var errs []error
	for _, f := range legacyFamilies {
		text, err := os.ReadFile(cfg.Proc + "/thread-self/net/" + f.names)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("look at %s: %w", f.program, err))
		}
		for table := range strings.FieldsSeq(string(text)) {
			_, blob, err := f.read(table)
			if err != nil {
				errs = append(errs, fmt.Errorf("look at table %s of %s: %w", table, f.program, err))
				continue
			}
			for _, chain := range f.chains(blob) {
				if who := of(table, chain); who != "" {
					out = append(out, Trace{Who: who, What: fmt.Sprintf("chain %s of table %s (%s)", chain, table, f.program)})
				}
			}
		}
	}
	return out, errors.Join(errs...)
}

// legacyFamily is one of the kernel's two interfaces, which differ in the sizes of an
// address. [include/uapi/linux/netfilter_ipv4/ip_tables.h, …_ipv6/ip6_tables.h]
type legacyFamily struct {
	names, program string
	domain, level  int
	target         int // offset of target_offset in an entry; next_offset follows it
}

var legacyFamilies = []legacyFamily{
	{"ip_tables_names", "iptables-legacy", unix.AF_INET, unix.SOL_IP, 88},
	{"ip6_tables_names", "ip6tables-legacy", unix.AF_INET6, unix.SOL_IPV6, 140},
}

const (
	tableName   = 32 // XT_TABLE_MAXNAMELEN
	getInfo     = 64 // IPT_SO_GET_INFO, IP6T_SO_GET_INFO
	getEntries  = 65 // IPT_SO_GET_ENTRIES, IP6T_SO_GET_ENTRIES
	infoSize    = 84 // struct ipt_getinfo; its last field is the size of the entries
	entriesHead = 40 // struct ipt_get_entries before the entries: the name, their size, and padding
	targetHead  = 32 // struct xt_entry_target: its size, its name, a revision
)

// read is what is known of a table and its rules. Any socket of the family answers, a raw one would
// take NET_RAW.
func (f legacyFamily) read(table string) (info, entries []byte, err error) {
	fd, err := unix.Socket(f.domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	info = make([]byte, infoSize)
	copy(info[:tableName-1], table)
	if err := f.get(fd, getInfo, info); err != nil {
		return nil, nil, err
	}
	size := binary.NativeEndian.Uint32(info[infoSize-4:])
	out := make([]byte, entriesHead+int(size))
	copy(out[:tableName-1], table)
	binary.NativeEndian.PutUint32(out[tableName:], size)
	if err := f.get(fd, getEntries, out); err != nil { // EAGAIN: the table has changed since
		return nil, nil, err
	}
	return info, out[entriesHead:], nil
}

func (f legacyFamily) get(fd, what int, buf []byte) error {
	n := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(f.level), uintptr(what), uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// chains are the names of the chains that have rules. A chain of somebody's begins with an
// entry whose target is called ERROR and names it, and ends with one that returns.
func (f legacyFamily) chains(blob []byte) []string {
	var out []string
	name, entries := "", 0
	for len(blob) >= f.target+4 {
		target := int(binary.NativeEndian.Uint16(blob[f.target:]))
		next := int(binary.NativeEndian.Uint16(blob[f.target+2:]))
		if next <= 0 || next > len(blob) || target+targetHead > next {
			break // not what this kernel should give
		}
		if text(blob[target+2:target+targetHead-1]) == "ERROR" {
			if name != "" && entries > 1 {
				out = append(out, name)
			}
			name, entries = text(blob[target+targetHead:next]), 0
		} else {
			entries++
		}
		blob = blob[next:]
	}
	return out
}

func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}
