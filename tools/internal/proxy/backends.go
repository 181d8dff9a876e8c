package proxy

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/iptables"
)

func backendNames() []string { return slices.Sorted(maps.Keys(backend.All(0))) }

// backendFlags are the flags of one backend each; the names of the flags begin
// with the backend's, but for the unprefixed ones.
type backendFlags struct {
	ownTables     bool
	flavour       string
	poll          time.Duration
	masqueradeBit uint
	stateDir      string
	verifierLog   string
	sockets       string
	cgroupRoot    string
	podSpaces     string
}

// The two things that --sockets says.
const (
	socketsAuto = "auto"
	socketsOff  = "off"
)

// unprefixed are the flags of a backend that do not begin with its name.
var unprefixed = map[string]string{"sockets": "ebpf", "cgroup-root": "ebpf", "pod-namespaces": "ebpf"}

func (b *backendFlags) register(fs *flag.FlagSet) {
	fs.BoolVar(&b.ownTables, "nftables-own-tables", false, "let nobody else write to the own tables, nor flush them with the ruleset, while this runs (NFT_TABLE_F_OWNER and _PERSIST, Linux 6.9)")
	fs.StringVar(&b.flavour, "iptables-flavour", string(iptables.Auto), "auto (that of kubelet's chains on this node, or else what the program iptables is), nft or legacy; legacy needs NET_RAW as well")
	fs.DurationVar(&b.poll, "iptables-poll", 10*time.Second, "`time` between two looks at the own chains: nothing else tells that somebody has changed them")
	fs.UintVar(&b.masqueradeBit, "iptables-masquerade-bit", uint(bits.TrailingZeros32(iptables.DefaultMark)), "`bit` of the packet mark that asks for masquerading, from 0 to 31; no other program on the node may use it")
	fs.StringVar(&b.stateDir, "userspace-state-dir", "/run/plumbline", "`directory` that outlives the process, where it notes what would end with it; empty: nowhere")
	fs.StringVar(&b.verifierLog, "ebpf-verifier-log", "", "`file` for what the kernel's verifier says of the programs, some ten megabytes, which are then loaded anew; empty: none. What it says of programs that it refuses is logged in any case")
	fs.StringVar(&b.sockets, "sockets", socketsAuto, "auto (with --backend ebpf connections that begin on the node are translated at their sockets, if the node's cgroup2 is found and the kernel takes programs there) or off (pods' are translated at the devices, and the node's own are not served)")
	fs.StringVar(&b.cgroupRoot, "cgroup-root", "", "`folder` of the node's cgroup2, or the one that has it as its folder unified (default: "+ebpf.CgroupRoot+", on a host whose process 1 is in the same network namespace, and not in a container)")
	fs.StringVar(&b.podSpaces, "pod-namespaces", "", "`folder` that has pods' network namespaces, such as /run/netns: their UDP sockets whose endpoint is gone are ended with ECONNABORTED, as the node's own are, which takes SYS_ADMIN; empty: they are counted")
}

// check wants the set to be parsed.
func (b *backendFlags) check(fs *flag.FlagSet, backend string) error {
	var err error
	fs.Visit(func(f *flag.Flag) {
		owner, ok := unprefixed[f.Name]
		if !ok {
			owner, _, _ = strings.Cut(f.Name, "-")
		}
		if err == nil && owner != backend && slices.Contains(backendNames(), owner) {
			err = fmt.Errorf("--%s: only with --backend %s", f.Name, owner)
		}
	})
	switch flavour := iptables.Flavour(b.flavour); {
	case err != nil:
		return err
	case flavour != iptables.Auto && flavour != iptables.NFT && flavour != iptables.Legacy:
		return fmt.Errorf("--iptables-flavour %q: give auto, nft or legacy", b.flavour)
	case b.masqueradeBit > 31:
		return fmt.Errorf("--iptables-masquerade-bit %d: give a number from 0 to 31", b.masqueradeBit)
	case b.sockets != socketsAuto && b.sockets != socketsOff:
		return fmt.Errorf("--sockets %q: give %s or %s", b.sockets, socketsAuto, socketsOff)
	case b.sockets == socketsOff && b.cgroupRoot != "":
		return fmt.Errorf("--cgroup-root %s: --sockets=%s uses none; give one of them", b.cgroupRoot, socketsOff)
	case b.podSpaces != "" && b.sockets == socketsOff:
		return fmt.Errorf("--pod-namespaces %s: with --sockets=%s no socket is translated; give one of them", b.podSpaces, socketsOff)
	case b.podSpaces != "" && !isFolder(b.podSpaces):
		return fmt.Errorf("--pod-namespaces %s: not a folder; give the one that has pods' network namespaces, such as /run/netns", b.podSpaces)
	case b.poll < time.Second:
		return fmt.Errorf("--iptables-poll %s: give a second or more", b.poll)
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (b *backendFlags) options() backend.Options {
	return backend.Options{OwnTables: b.ownTables, Flavour: iptables.Flavour(b.flavour), Poll: b.poll, MasqueradeBit: b.masqueradeBit, StateDir: b.stateDir, VerifierLog: b.verifierLog, PodSpaces: b.podSpaces}
}

// atSockets has what begins on the node translated at its sockets, by a backend that can do so,
// where the node's cgroup2 is known and the kernel takes the programs, which taken tells. Where not, that
// is said by whom is then not served.
func (b *backendFlags) atSockets(cfg *agent.Config, taken func() error) error {
	if !cfg.Backend.Sockets {
		return nil
	}
	if b.sockets == socketsOff {
		cfg.Backend.NoNode += "; --sockets=" + socketsOff
		return nil
	}
	var path string
	var err error
	why := ", without --cgroup-root"
	if b.cgroupRoot == "" {
		path, err = ebpf.HostCgroup()
	} else if path, err = ebpf.NodeCgroup(b.cgroupRoot); errors.Is(err, ebpf.ErrOnlyV1) {
		why = ""
	} else if err != nil {
		return fmt.Errorf("--cgroup-root %s: %w", b.cgroupRoot, err)
	}
	if err != nil {
		cfg.Backend.NoNode += "; as with --sockets=" + socketsOff + why + ": " + err.Error()
		return nil
	}
	if err := taken(); err != nil {
		cfg.Backend.NoNode += "; as with --sockets=" + socketsOff + ": " + err.Error()
		return nil
	}
	cfg.Own.Cgroup, cfg.Plan.Sockets, cfg.Backend.NoNode = path, true, ""
	return nil
}
