package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/others"
	"github.com/plumbline/plumbline/tools/internal/call"
)

const lookUsage = `plumb-proxy look [flags]

Says who proxies Services on this node: a line for each trace of a proxy, ours or
another's, and for each address of --connect that answers. An agent that may be no
more than the pods' network is told of only beside something else. Exit status: 0
there is none, 3 there is, 1 it could not be found out.

With --await it waits until every address of --connect answers, and says which do
not: exit status 0 all do, 3 some do not.

`

// exitFound: somebody proxies Services here, or (with --await) nobody does.
const exitFound = 3

// look is what look is asked for.
type look struct {
	connect []netip.AddrPort
	only    bool          // connect, and look at nothing
	await   time.Duration // 0: do not
	cgroup  string
	message string // file that what is said goes to as well
}

func parseLook(args []string) (look, error) {
	var l look
	fs := call.Flags("plumb-proxy look")
	connect := fs.String("connect", "", "`addresses` of Services over TCP, such as 10.96.0.1:443,[fd00::1]:443")
	fs.BoolVar(&l.only, "only-connect", false, "look at no traces, which needs CAP_NET_ADMIN")
	fs.DurationVar(&l.await, "await", 0, "wait until all of --connect answer, for so long at most")
	fs.StringVar(&l.cgroup, "cgroup", "/sys/fs/cgroup", "root of the node's cgroups")
	fs.StringVar(&l.message, "message", "", "`file` to write it to as well, if it is there, such as /dev/termination-log: what a kubelet takes from a container's log may not be in it yet")
	if err := call.Parse(fs, lookUsage, args); err != nil {
		return l, err
	}
	for part := range strings.SplitSeq(*connect, ",") {
		if part == "" {
			continue
		}
		at, err := netip.ParseAddrPort(part)
		if err != nil || at.Port() == 0 {
			return l, fmt.Errorf("look: --connect %q: give an address and a port", part)
		}
		if !slices.Contains(l.connect, at) {
			l.connect = append(l.connect, at)
		}
	}
	switch {
	case fs.NArg() > 0:
		return l, fmt.Errorf("look: unexpected argument %q", fs.Arg(0))
	case l.await < 0:
		return l, fmt.Errorf("look: --await %s: must not be negative", l.await)
	case l.await > 0 && len(l.connect) == 0:
		return l, errors.New("look: --await is about --connect, which names no address")
	}
	return l, nil
}

// run says what there is, and returns the exit status.
func (l look) run(ctx context.Context, stdout, stderr io.Writer) int {
	say := l.look
	if l.await > 0 {
		say = l.awaitAll
	}
	lines, err := say(ctx)
	code, to := found(len(lines) > 0), stdout
	if err != nil {
		lines = []string{"plumb-proxy: look: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
		code, to = call.Failed, stderr
	}
	for _, line := range lines {
		fmt.Fprintln(to, line)
	}
	if err := l.leave(lines); err != nil {
		fmt.Fprintf(stderr, "plumb-proxy: look: %v\n", err)
		return call.Failed
	}
	return code
}

// leave writes what was said to the file that somebody else has made for it.
func (l look) leave(lines []string) error {
	if l.message == "" || len(lines) == 0 {
		return nil
	}
	f, err := os.OpenFile(l.message, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("leave a message: %w", err)
	}
	_, err = fmt.Fprintln(f, strings.Join(lines, "\n"))
	return errors.Join(err, f.Close())
}

// look says who proxies Services, a line each.
func (l look) look(ctx context.Context) (lines []string, err error) {
	var traces []others.Trace
	if !l.only {
		if traces, err = others.Find(others.Config{Cgroup: l.cgroup}); err != nil {
			return nil, err
		}
	}
	silent, err := ask(ctx, l.connect)
	if err != nil {
		return nil, err
	}
	var untold error
	for _, at := range l.connect {
		switch {
		case silent[at] == nil:
			lines = append(lines, fmt.Sprintf("somebody: %s answers", at))
		case errors.Is(silent[at], errAnyone) && !slices.ContainsFunc(l.connect, isAPI):
			untold = fmt.Errorf("ask %s: %w, and no API server is among the addresses, which could be told from that", at, silent[at])
		}
	}
	proven := len(lines) > 0 || slices.ContainsFunc(traces, func(t others.Trace) bool { return !t.Network })
	for _, t := range traces {
		if proven {
			lines = append(lines, t.String())
		}
	}
	if !proven && untold != nil {
		return nil, untold
	}
	return lines, nil
}

func found(yes bool) int {
	if yes {
		return exitFound
	}
	return call.OK
}

// awaitAll asks again and again until all answer, and says which do not at the end. Where
// strangers answer for all, the API server stands for those that cannot be told from them.
func (l look) awaitAll(ctx context.Context) (lines []string, err error) {
	end := time.Now().Add(l.await)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		silent, err := ask(ctx, l.connect)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if served := len(silent) < len(l.connect); served {
			maps.DeleteFunc(silent, func(_ netip.AddrPort, why error) bool { return errors.Is(why, errAnyone) })
		}
		if len(silent) == 0 {
			return nil, nil
		}
		if time.Now().After(end) {
			for _, at := range l.connect {
				if silent[at] != nil {
					lines = append(lines, fmt.Sprintf("%s does not answer: %v", at, silent[at]))
				}
			}
			return lines, err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
