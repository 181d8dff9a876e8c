package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// answerLimit is how long a Service may take to answer: a SYN that was lost is sent again
// after a second (RFC 6298).
const answerLimit = 2500 * time.Millisecond

// silences are what a connection comes to where nobody forwards it. Any other failure is
// this program's, or its surroundings', and says nothing.
var silences = []error{context.DeadlineExceeded, os.ErrDeadlineExceeded, unix.ETIMEDOUT, unix.ECONNREFUSED, unix.ECONNRESET, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EACCES, unix.EPERM, errAnyone}

// ask connects to all at once and says why those do not answer that do not.
func ask(ctx context.Context, list []netip.AddrPort) (map[netip.AddrPort]error, error) {
	var failed []error
	silent := map[netip.AddrPort]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, at := range list {
		wg.Go(func() {
			err := askOne(ctx, at, nobodys(at.Addr(), list))
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			silent[at] = err
			if !slices.ContainsFunc(silences, func(s error) bool { return errors.Is(err, s) }) {
				failed = append(failed, err)
			}
		})
	}
	wg.Wait()
	return silent, errors.Join(append(failed, ctx.Err())...)
}

// errAnyone: there are networks whose way out answers for every address, such as a
// transparent proxy's. That an address of a Service answers says nothing there.
var errAnyone = errors.New("whoever answers there answers at a port that is no Service's too")

// askOne connects to an address, and to a port of it that nobody serves. If both answer,
// only what is an API server by its certificate is more than a stranger.
func askOne(ctx context.Context, at, nobodys netip.AddrPort) error {
	stranger := make(chan bool, 1)
	go func() { stranger <- connect(ctx, nobodys, nil) == nil }()
	err := connect(ctx, at, nil)
	if err != nil || !<-stranger {
		return err
	}
	if isAPI(at) && connect(ctx, at, apiServer) == nil {
		return nil
	}
	return errAnyone
}

// nobodys is a port of an address that no Service of a list has.
func nobodys(addr netip.Addr, list []netip.AddrPort) netip.AddrPort {
	at := netip.AddrPortFrom(addr, 1)
	for slices.Contains(list, at) {
		at = netip.AddrPortFrom(addr, at.Port()+1)
	}
	return at
}

// isAPI: the Service kubernetes has this port in every cluster.
func isAPI(at netip.AddrPort) bool { return at.Port() == 443 }

// apiServer demands that it is one: each has a certificate for this name. Whether it is
// the cluster's own does not matter, and its authority is not known here.
func apiServer(ctx context.Context, c net.Conn) error {
	const name = "kubernetes.default.svc"
	t := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	return t.ConnectionState().PeerCertificates[0].VerifyHostname(name)
}

// connect connects, and has what answers looked at.
func connect(ctx context.Context, at netip.AddrPort, look func(context.Context, net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	defer c.Close()
	if look == nil {
		return nil
	}
	return look(ctx, c)
}
