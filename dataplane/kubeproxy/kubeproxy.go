//go:build linux

// Package kubeproxy takes the place of a kube-proxy that has ended: what it left in a network
// namespace is told, and taken away. Names are upstream's (package others has them), and so is
// what goes: `kube-proxy --cleanup`, but for mode ipvs, whose clean-up takes everybody's
// virtual services away.
//
// kube-proxy leaves its rules when it ends. While they are there beside those of another who
// translates by conntrack, the first of the two to translate a packet is the only one, and
// connections that it has translated go on when its rules are gone.
package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	lib "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/others"
	"github.com/plumbline/plumbline/dataplane/spaces"
)

// Name is the program's.
const Name = "kube-proxy"

// Left names what a kube-proxy left, in whatever mode, or keeps. With an error it is what could
// be found.
func Left(netns int) ([]string, error) {
	return find(netns, others.KubeProxy)
}

func find(netns int, look func(others.Config) ([]others.Trace, error)) (out []string, err error) {
	err = spaces.Do(netns, func() error {
		found, err := look(others.Config{})
		for _, t := range found {
			out = append(out, t.What)
		}
		return err
	})
	return out, err
}

// Clean takes away what is left of the modes nftables and iptables, unless a kube-proxy is seen
// to run, which would put it back. What there is in the way of it for good, such as mode ipvs
// or a rule of somebody's that leads to a chain, is a *backend.Stays.
func Clean(netns int) error {
	switch running, err := find(netns, others.KubeProxyRunning); {
	case err != nil:
		return err
	case len(running) > 0:
		return fmt.Errorf("%s runs on this node (%s) and would put back what is taken away", Name, running[0])
	}
	left, err := Left(netns)
	for _, what := range left {
		if strings.HasPrefix(what, "link ") {
			return &backend.Stays{Undone: true, What: []string{what + " is of mode ipvs, whose virtual services cannot be told from others': run kube-proxy --cleanup on this node"}}
		}
	}
	// CNI plugins may have theirs masqueraded by that chain (portmap's externalSetMarkChain).
	asks := map[string]string{"KUBE-MARK-MASQ": "KUBE-POSTROUTING"}
	stays, failed := iptables.Remove(netns, others.IsKubeProxys, asks)
	if err := errors.Join(err, cleanTables(netns), failed); err != nil {
		return err // what stays is told when that is cured
	}
	if len(stays) > 0 {
		return &backend.Stays{What: stays}
	}
	return nil
}

func cleanTables(netns int) error {
	conn, err := lib.New(lib.WithNetNSFd(netns), lib.AsLasting())
	if err != nil {
		return fmt.Errorf("open netfilter socket: %w", err)
	}
	defer conn.CloseLasting()
	for _, f := range []lib.TableFamily{lib.TableFamilyIPv4, lib.TableFamilyIPv6} {
		conn.DelTable(&lib.Table{Family: f, Name: others.KubeProxyTable})
		if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("delete table %s: %w", others.KubeProxyTable, err)
		}
	}
	return nil
}

// mode is where a kube-proxy says its mode, by default.
const mode = "127.0.0.1:10249"

// answerWithin bounds the wait for somebody on the same node.
const answerWithin = time.Second

// Ours is the Server that an agent of this project says it is there.
const Ours = "plumb-proxy"

// Running names a kube-proxy that runs on this node; empty: there is none. A process is seen
// only by who sees the node's processes; who does not asks where kube-proxy says its mode,
// unless that has been changed. It is an error if neither tells.
func Running(ctx context.Context) (string, error) {
	running, err := find(0, others.KubeProxyRunning)
	if len(running) > 0 {
		return running[0], nil
	}
	if err != nil {
		return "", err
	}
	who, err := answers(ctx)
	if errors.Is(err, errHungUp) { // it may have been about to end, or to begin
		select {
		case <-ctx.Done():
		case <-time.After(answerWithin):
		}
		if who, err = answers(ctx); errors.Is(err, errHungUp) {
			return "", nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("ask who serves %s: %w", mode, err)
	}
	return who, nil
}

// answers is who answers where kube-proxy says its mode, unless that is nobody or somebody else.
func answers(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+mode+"/proxyMode", nil)
	if err != nil {
		return "", err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", unanswered(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Server") == Ours {
		return "", besideOurs()
	}
	if resp.StatusCode != http.StatusOK {
		return "", nil // somebody else's
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, 64))
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return fmt.Sprintf("who answers %s/proxyMode with %q", mode, strings.TrimSpace(string(said))), nil
}

// errHungUp: somebody took the connection, and answered nothing.
var errHungUp = errors.New("it hung up")

// unanswered is nil for what no kube-proxy does: nobody listens, or who does speaks no HTTP. A
// kube-proxy under load may be silent.
func unanswered(err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, unix.ECONNRESET, unix.EPIPE} {
		if errors.Is(err, end) {
			return errHungUp
		}
	}
	var op *net.OpError
	dialling := errors.As(err, &op) && op.Op == "dial" && !errors.Is(err, unix.ECONNREFUSED)
	if dialling || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// besideOurs is nil if this node's processes are seen: then a kube-proxy would be seen as well. It
// may run without an answer while ours has its port.
func besideOurs() error {
	seen, err := others.SeesNode("/proc")
	if err == nil && !seen {
		return errors.New("an agent of this project has that port, and the node's processes are not seen from here")
	}
	return err
}
