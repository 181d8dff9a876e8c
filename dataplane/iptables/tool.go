package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/spaces"
)

// Flavour is which of the kernel's two interfaces the iptables programs use.
type Flavour string

// The flavours. Auto is that of the chains that kubelet keeps on this node, or else what the
// program "iptables" is: rules of both would judge a packet one after the other, and what one
// accepts the other may drop.
const (
	Auto   Flavour = "auto"
	NFT    Flavour = "nft"
	Legacy Flavour = "legacy"
)

// lockWait is how long the xtables lock of others is waited for.
const lockWait = 5 * time.Second

// ErrLocked: another program held /run/xtables.lock all the time. The lock is
// taken for each table's section of a script: the section under way changed
// nothing, sections before it are in. The next Apply may find it free.
var ErrLocked = errors.New("the xtables lock is held by another program")

// ExecError is a program that ended badly.
type ExecError struct {
	Argv   []string
	Input  string // the line it complained of and its neighbours, not all of it
	Stderr string
	Err    error
}

// Error is what was run and what it said.
func (e *ExecError) Error() string {
	out := fmt.Sprintf("run %s: %v", strings.Join(e.Argv, " "), e.Err)
	if e.Stderr != "" {
		out += ": " + strings.Join(strings.Fields(e.Stderr), " ")
	}
	if e.Input != "" {
		out += fmt.Sprintf(" (input: %s)", strings.ReplaceAll(strings.TrimSpace(e.Input), "\n", " | "))
	}
	return out
}

// Unwrap is the error of package os/exec.
func (e *ExecError) Unwrap() error { return e.Err }

// command makes a command: exec.Command, or one that ends with a context.
type command func(name string, args ...string) *exec.Cmd

func within(ctx context.Context) command {
	return func(name string, args ...string) *exec.Cmd { return exec.CommandContext(ctx, name, args...) }
}

// tool runs the programs of one flavour in one network namespace.
type tool struct {
	flavour  Flavour // not Auto
	why      string  // it is that, where it was Auto
	netns    int
	families []bool // false for IPv4, true for IPv6
}

func newTool(do command, flavour Flavour, ns int) (*tool, error) {
	t := &tool{flavour: flavour, netns: ns}
	if err := t.findFamilies(); err != nil {
		return nil, err
	}
	if flavour != NFT && flavour != Legacy {
		var err error
		if t.flavour, t.why, err = t.findFlavour(do); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Resolve is the flavour that a Target with this one has in a namespace.
func (f Flavour) Resolve(ctx context.Context, netns int) (Flavour, error) {
	if f == NFT || f == Legacy {
		return f, nil
	}
	t, err := newTool(within(ctx), f, netns)
	if err != nil {
		return "", err
	}
	return t.flavour, nil
}

// findFlavour is what Auto stands for, and why.
func (t *tool) findFlavour(do command) (f Flavour, why string, err error) {
	hinted, failed := t.hinted(do)
	if hinted != "" {
		return hinted, "kubelet's chains are", nil
	}
	out, err := t.run(do, "", "iptables", "--version")
	if err != nil {
		return "", "", fmt.Errorf("ask iptables for its flavour: %w", err)
	}
	why = "the program iptables is"
	if failed != nil {
		why += fmt.Sprintf(", and kubelet's chains cannot be looked for: %v", failed)
	}
	return flavourOf(out), why, nil
}

// hints are chains of table mangle that kubelet makes for who is to find out which flavour it
// uses (KEP-3178), and the one that it had before.
var hints = []string{"KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"}

// hinted is the flavour of kubelet's chains; empty: there are none, or they cannot be read.
func (t *tool) hinted(do command) (Flavour, error) {
	var errs []error
	for _, v6 := range t.families {
		all, err := chainsOfNFT(t.netns, v6)
		errs = append(errs, err)
		if slices.ContainsFunc(all, func(id chainID) bool { return id.table == "mangle" && slices.Contains(hints, id.name) }) {
			return NFT, nil
		}
	}
	legacy := &tool{flavour: Legacy, netns: t.netns}
	for _, v6 := range t.families {
		has, err := legacy.hasLegacyTables(v6)
		errs = append(errs, err)
		if _, missing := exec.LookPath(legacy.program(v6, "save")); !has || missing != nil {
			continue
		}
		saved, err := legacy.save(do, v6)
		errs = append(errs, err)
		for _, s := range parseSaved(saved) {
			if s.table == "mangle" && slices.ContainsFunc(hints, func(h string) bool { _, is := s.builtin[h]; return is }) {
				return Legacy, nil
			}
		}
	}
	return "", errors.Join(errs...)
}

// flavourOf reads "iptables v1.8.9 (nf_tables)". Versions before 1.8 say nothing
// and are legacy.
func flavourOf(version string) Flavour {
	if strings.Contains(version, "(nf_tables)") {
		return NFT
	}
	return Legacy
}

func (t *tool) program(v6 bool, what string) string {
	name := "iptables-"
	if v6 {
		name = "ip6tables-"
	}
	return name + string(t.flavour) + "-" + what
}

// save is iptables-save of all tables.
func (t *tool) save(do command, v6 bool) (string, error) {
	return t.run(do, "", t.program(v6, "save"))
}

// restore writes a script and waits for the lock, which the nft flavour has no
// need of: its transactions fail, and are made again, if others come between.
func (t *tool) restore(do command, v6 bool, input string) error {
	wait := strconv.Itoa(int(lockWait.Seconds()))
	_, err := t.run(do, input, t.program(v6, "restore"), "--noflush", "-w", wait)
	return err
}

// run runs a program in the namespace. A child is in the network namespace of the
// thread that started it.
func (t *tool) run(do command, input string, argv ...string) (string, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return "", fmt.Errorf("find %s (Debian package iptables): %w", argv[0], err)
	}
	cmd := do(path, argv[1:]...)
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &stderr
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	if err := spaces.Do(t.netns, cmd.Start); err != nil {
		return "", &ExecError{Argv: argv, Err: err}
	}
	if err := cmd.Wait(); err != nil {
		return "", explain(&ExecError{
			Argv: argv, Err: err, Stderr: excerpt(stderr.String()), Input: around(input, stderr.String()),
		})
	}
	return out.String(), nil
}

// present tells whether the namespace's /proc/net has a file.
func (t *tool) present(name string) (bool, error) {
	err := spaces.Do(t.netns, func() error {
		_, err := os.Stat("/proc/thread-self/net/" + name)
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		_, err = os.Stat("/proc/thread-self/net") // unless there is no /proc at all
		return false, err
	}
	return err == nil, err
}

// findFamilies finds out what the kernel speaks: with ipv6.disable=1 there are
// no tables for IPv6, and no packets.
func (t *tool) findFamilies() error {
	v6, err := t.present("if_inet6")
	if err != nil {
		return fmt.Errorf("look for IPv6: %w", err)
	}
	t.families = []bool{false}
	if v6 {
		t.families = append(t.families, true)
	}
	return nil
}

// explain adds what the reader cannot know to errors that are about the host.
func explain(e *ExecError) error {
	switch {
	case strings.Contains(e.Stderr, "holding the xtables lock"):
		return fmt.Errorf("%w: %w", ErrLocked, e)
	case strings.Contains(e.Stderr, "lock file"):
		return fmt.Errorf("take the xtables lock (its folder, /run, must exist and be writable): %w", e)
	case strings.Contains(e.Stderr, "unable to initialize table") && bequeaths(unix.CAP_NET_RAW):
		return fmt.Errorf("open a table (legacy needs the kernel's ip_tables): %w", e)
	case strings.Contains(e.Stderr, "unable to initialize table"),
		strings.Contains(e.Stderr, "Permission denied"), strings.Contains(e.Stderr, "you must be root"):
		return fmt.Errorf("use iptables without the right to (NET_ADMIN; legacy needs NET_RAW as well): %w", e)
	}
	return e
}

// bequeaths tells whether programs that we start get a capability: root's get
// those of the bounding set, anybody else's the ambient ones (capabilities(7)).
func bequeaths(capability uintptr) bool {
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0)
	if os.Geteuid() != 0 {
		has, err = unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, capability, 0, 0)
	}
	return err == nil && has == 1
}

// excerpt is the first few lines of what a program said, without its advice.
func excerpt(stderr string) string {
	var out []string
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Try `") && len(out) < 8 {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
