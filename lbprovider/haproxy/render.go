package haproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/profile"
)

// Files of one load balancer, in its directory. The address of a socket is short
// (sun_path, unix(7)), and HAProxy adds its pid and more while it binds one.
const (
	ConfigFile   = "haproxy.cfg"
	StatesFile   = "servers.state"
	LogSocket    = "log.sock"  // stream
	LogDatagrams = "log.dgram" // the same rows again

	// OwnDir is HAProxy's own, for what it makes.
	OwnDir       = "run"
	StatsSocket  = OwnDir + "/stats"
	MasterSocket = OwnDir + "/master"
	PeersSocket  = OwnDir + "/peers"
	PidFile      = OwnDir + "/haproxy.pid" // of the master
)

// MaxConns bounds the connections of one load balancer. Two descriptors each
// fit into the limits a container usually gets.
const MaxConns = 4000

// affinityEntries bounds the stick table (about 50 bytes an entry).
const affinityEntries = "100k"

// Config is everything haproxy.cfg is made from.
type Config struct {
	LB      lbplan.LB
	Profile profile.Profile
	Dir     string // of its files, as HAProxy sees it
	// Bind is where to listen, by family. A family without an address listens
	// on all: right where the LB's addresses are the only ones.
	Bind map[lbplan.Family]netip.Addr
}

// Render writes haproxy.cfg.
//
// The description is a hash of all that only a reload can change, so that the
// socket tells which configuration a process really runs.
func Render(c Config) string {
	body := renderShared(c)
	servers := ""
	base := body
	for _, l := range c.LB.Listeners {
		head, tail := renderListener(c, l), renderServers(l)
		base += head
		servers += head + tail
	}
	return "# Written by plumb-lb; do not edit.\nglobal\n  description " + digest(base) + "\n" + body + servers
}

// BaseOf is the hash in a rendered configuration's description.
func BaseOf(c Config) string {
	base := renderShared(c)
	for _, l := range c.LB.Listeners {
		base += renderListener(c, l)
	}
	return digest(base)
}

// renderShared is what all listeners have in common.
func renderShared(c Config) string { return renderGlobal(c) + renderPeers(c) + renderDefaults(c) }

func digest(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:8])
}

// renderGlobal: each log row goes two ways, and whoever reads both misses none.
// A ring buffer that HAProxy forwards over a unix stream holds rows in a burst
// and while the provider is away; but a worker that a reload replaced forwards it
// no more, from the reload on. A datagram is sent at once; but HAProxy drops it if
// its socket's queue is full, so the reader's has to be long. "timed" stamps a row
// with microseconds where it happened.
func renderGlobal(c Config) string {
	peer := ""
	if c.LB.Affinity > 0 {
		peer = "  localpeer " + localPeer + "\n"
	}
	return fmt.Sprintf(`  nbthread 1
  maxconn %d
%s  spread-checks 0
  hard-stop-after 1h
  stats socket %s mode 600 level admin expose-fd listeners
  server-state-file %s
  log ring@log len 2048 local0
  log %s len 2048 format timed local0

ring log
  format timed
  maxlen 2048
  size 4194304
  timeout connect 1s
  timeout server 1h
  server provider unix@%s

`, MaxConns, peer, path(c, StatsSocket), path(c, StatesFile), path(c, LogDatagrams), path(c, LogSocket))
}

const (
	peers     = "self" // the section, and its only peer
	localPeer = "here"
)

// renderPeers: a process that is replaced teaches its successor the stick tables, for
// which it needs to be a peer of itself (configuration.txt 3.5).
func renderPeers(c Config) string {
	if c.LB.Affinity == 0 {
		return ""
	}
	return fmt.Sprintf("peers %s\n  peer %s unix@%s\n\n", peers, localPeer, path(c, PeersSocket))
}

func path(c Config, file string) string { return word(c.Dir + "/" + file) }

func renderDefaults(c Config) string {
	p := c.Profile
	var b strings.Builder
	b.WriteString("defaults\n  mode tcp\n  log global\n")
	fmt.Fprintf(&b, "  log-format \"%s\"\n", logFormat)
	b.WriteString("  option log-health-checks\n  load-server-state-from-file global\n")
	fmt.Fprintf(&b, "  maxconn %d\n  balance roundrobin\n", MaxConns)
	fmt.Fprintf(&b, "  option httpchk GET %s\n", c.LB.Check.Path)
	if p.Retries != profile.Default {
		fmt.Fprintf(&b, "  retries %d\n", p.Retries)
	}
	fmt.Fprintf(&b, "  timeout connect %s\n", ms(p.Connect))
	if p.Timeout > 0 {
		fmt.Fprintf(&b, "  timeout check %s\n", ms(p.Timeout))
	}
	fmt.Fprintf(&b, "  timeout client %s\n  timeout server %s\n", ms(p.Idle), ms(p.Idle))
	fmt.Fprintf(&b, "  default-server %s\n", checkParams(c))
	return b.String()
}

func checkParams(c Config) string {
	p := c.Profile
	every := "inter " + ms(p.Interval)
	if p.Fast > 0 {
		every += " fastinter " + ms(p.Fast)
	}
	if p.Down > 0 {
		every += " downinter " + ms(p.Down)
	}
	return fmt.Sprintf("check port %d %s fall %d rise %d", c.LB.Check.Port, every, p.Fall, p.Rise)
}

func ms(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func renderListener(c Config, l lbplan.Listener) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nlisten %s\n  bind %s\n", proxyName(l), bind(c, l))
	b.WriteString(renderSources(c.LB.Sources, l.Family))
	b.WriteString(renderAffinity(c, l))
	return b.String()
}

// renderAffinity: the table holds each client to its server for the time the Service
// asks for, also when nodes come; over a reload its peer keeps it. It names servers by
// their ids, which are those of their nodes (serverIDs). It does not live through a
// crash; then the hash of the client's address, by which a new client is placed, leads
// it to the same server again as long as the nodes are the same.
func renderAffinity(c Config, l lbplan.Listener) string {
	if c.LB.Affinity == 0 {
		return ""
	}
	table := "ip"
	if l.Family == lbplan.V6 {
		table = "ipv6"
	}
	return fmt.Sprintf("  balance source\n  hash-type consistent\n  stick-table type %s size %s expire %s peers %s\n  stick on src\n",
		table, affinityEntries, ms(c.LB.Affinity), peers)
}

func bind(c Config, l lbplan.Listener) string {
	if a, ok := c.Bind[l.Family]; ok {
		return netip.AddrPortFrom(a, l.Port).String()
	}
	if l.Family == lbplan.V6 {
		return fmt.Sprintf("[::]:%d v6only", l.Port)
	}
	return fmt.Sprintf("0.0.0.0:%d", l.Port)
}

// renderSources rejects before a session exists: nothing of the client reaches
// a server. A list without an entry of this family rejects everybody.
func renderSources(sources []netip.Prefix, f lbplan.Family) string {
	if len(sources) == 0 {
		return ""
	}
	var b strings.Builder
	for _, p := range sources {
		if lbplan.FamilyOf(p.Addr()) == f {
			fmt.Fprintf(&b, "  acl allowed src %s\n", p)
		}
	}
	if b.Len() == 0 {
		return "  tcp-request connection reject\n"
	}
	return b.String() + "  tcp-request connection reject unless allowed\n"
}

func renderServers(l lbplan.Listener) string {
	var b strings.Builder
	ids := serverIDs(l)
	for _, s := range l.Servers {
		fmt.Fprintf(&b, "  server %s %s id %d\n", serverName(s.Node), s.Addr, ids[s.Node])
	}
	return b.String()
}
