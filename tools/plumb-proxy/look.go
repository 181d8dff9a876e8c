package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/others"
)

const lookUsage = `usage: plumb-proxy look [flags]

Says who proxies Services on this node: a line for each trace of a proxy, ours or
another's, and for each address of --connect that answers. Exit status: 0 there is
none, 3 there is, 1 it could not be found out.

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
}

func parseLook(args []string) (look, error) {
	var l look
	fs := flag.NewFlagSet("plumb-proxy look", flag.ContinueOnError)
	var text strings.Builder
	fs.SetOutput(&text)
	fs.Usage = func() {}
	connect := fs.String("connect", "", "`addresses` of Services over TCP, such as 10.96.0.1:443,[fd00::1]:443")
	fs.BoolVar(&l.only, "only-connect", false, "look at no traces, which needs CAP_NET_ADMIN")
	fs.DurationVar(&l.await, "await", 0, "wait until all of --connect answer, for so long at most")
	fs.StringVar(&l.cgroup, "cgroup", "/sys/fs/cgroup", "root of the node's cgroup v2 hierarchy")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.PrintDefaults()
			return l, helpWanted(lookUsage + text.String())
		}
		return l, fmt.Errorf("look: %w; see plumb-proxy look --help", err)
	}
	for part := range strings.SplitSeq(*connect, ",") {
		if part == "" {
			continue
		}
		at, err := netip.ParseAddrPort(part)
		if err != nil || at.Port() == 0 {
			return l, fmt.Errorf("look: --connect %q: give an address and a port", part)
		}
		l.connect = append(l.connect, at)
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
	if l.await > 0 {
		ctx, cancel := context.WithTimeout(ctx, l.await)
		defer cancel()
		silent := l.awaitAll(ctx)
		for _, at := range l.connect {
			if err := silent[at]; err != nil {
				fmt.Fprintf(stdout, "%s does not answer: %v\n", at, err)
			}
		}
		return found(len(silent) > 0)
	}
	var traces []others.Trace
	if !l.only {
		var err error
		if traces, err = others.Find(others.Config{Cgroup: l.cgroup}); err != nil {
			fmt.Fprintf(stderr, "plumb-proxy: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
			return exitFailed
		}
	}
	for _, t := range traces {
		fmt.Fprintln(stdout, t)
	}
	silent := ask(ctx, l.connect)
	for _, at := range l.connect {
		if silent[at] == nil {
			fmt.Fprintf(stdout, "somebody: %s answers\n", at)
		}
	}
	return found(len(traces) > 0 || len(silent) < len(l.connect))
}

func found(yes bool) int {
	if yes {
		return exitFound
	}
	return exitOK
}

// answerLimit is how long a Service may take to answer: a SYN that was lost is sent again
// after a second (RFC 6298).
const answerLimit = 2500 * time.Millisecond

// ask connects to all at once and says why those do not answer that do not.
func ask(ctx context.Context, list []netip.AddrPort) map[netip.AddrPort]error {
	silent := map[netip.AddrPort]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, at := range list {
		wg.Go(func() {
			c, err := (&net.Dialer{Timeout: answerLimit}).DialContext(ctx, "tcp", at.String())
			if err == nil {
				_ = c.Close()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			silent[at] = err
		})
	}
	wg.Wait()
	return silent
}

// awaitAll asks again and again, and returns what the last answers were.
func (l look) awaitAll(ctx context.Context) map[netip.AddrPort]error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last := map[netip.AddrPort]error{}
	for {
		silent := ask(ctx, l.connect)
		if len(silent) == 0 {
			return nil
		}
		if ctx.Err() != nil && len(last) > 0 { // what the end of the wait cut off says nothing
			return last
		}
		last = silent
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}
