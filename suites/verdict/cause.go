package verdict

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// evidence is a loss or slow answer with all that is recorded around it.
type evidence struct {
	outcome
	tl      *timeline.Timeline
	harness moments
	s       Settings
	trail   trail // of packets
	// remembered: the node may have led it after an earlier one from the same port.
	remembered bool
}

// explain names the cause of every loss and of every slow answer.
func explain(out []outcome, tl *timeline.Timeline, harness moments, s Settings, trails trails) {
	unanswered := memory{}
	for i := range out { // as they were planned
		if o := out[i]; o.class.Lost() || o.class.Slow() {
			out[i].cause = causeOf(evidence{o, tl, harness, s, trails.of(o), unanswered.has(o)})
			unanswered.note(o)
		}
	}
}

// memory is when a node was last sent a connection from a port, of those that nobody answered.
type memory map[port]int64

type port struct {
	node string
	side netip.AddrPort
}

// rememberedFor is how long a kernel remembers a connection of which it saw the SYN alone
// (nf_conntrack_tcp_timeout_syn_sent: 120 s), behind the last one, which goes out until the
// balancer gives up.
const rememberedFor = 130 * time.Second

func (m memory) has(o outcome) bool {
	if o.conn == nil || !o.conn.Source.IsValid() || o.conn.DialMS >= 0 {
		return false
	}
	at, ok := m[port{o.node, unmap(o.conn.Source)}]
	return ok && o.conn.Accepted-at < rememberedFor.Nanoseconds()
}

func (m memory) note(o outcome) {
	refused := o.conn != nil && strings.HasPrefix(o.conn.Term, "S") // answered, after all
	if o.conn != nil && o.conn.Source.IsValid() && o.conn.DialMS < 0 && !refused {
		m[port{o.node, unmap(o.conn.Source)}] = o.conn.Accepted
	}
}

// rule is one line of the table.
type rule struct {
	cause Cause
	is    func(evidence) bool
}

// rules is the table of causes: read from the top, the first that matches is taken. What
// was seen of packets comes before what states and logs suggest, but for connections that were led
// astray by what a node remembered, or could not hear.
func rules() []rule {
	return []rule{
		{CauseHarness, evidence.hostWasSick},
		{CauseCheckFailed, func(e evidence) bool { return e.noServer() && e.checkFailed() }},
		{CauseNoServer, evidence.noServer},
		{CauseLBRefused, func(e evidence) bool { return e.balanced() && refusedDial(e.class) }},
		{CauseLBSilent, evidence.balancerWasSilent},
		{CauseLBReset, evidence.resetBeforeBalancer},
		{CauseLBReset, evidence.balancerEnded},
		{CauseMisrouted, func(e evidence) bool { return e.class == WrongBackend || e.class == WrongWorkload }},
		{CausePod, evidence.appAnswered},
		{CauseLBSilent, func(e evidence) bool { return e.late() && (e.trail == trailBalancer || e.trail == trailPassed) }},
		{CauseLBSilent, evidence.requestSentAgain},
		{CauseRemembered, func(e evidence) bool { return e.remembered && !e.dead() }},
		{CauseStale, evidence.stale},
		{CauseLagPodGone, func(e evidence) bool { return e.lag() && e.pods().gone && e.connectFailed() }},
		{CausePod, func(e evidence) bool {
			return e.dead() && e.pods().gone && !e.podsBefore(heardWithin).gone && e.connectFailed()
		}},
		{CauseNodeDrop, func(e evidence) bool { return e.trail == trailNodeSilent && !e.lag() }},
		{CauseNodeReject, func(e evidence) bool { return e.trail == trailNodeRefused && !e.lag() }},
		{CauseNodeReset, func(e evidence) bool { return e.trail == trailNodeReset }},
		{CausePodDrop, func(e evidence) bool { return e.trail == trailPodSilent }},
		{CausePodReject, func(e evidence) bool { return e.trail == trailPodRefused }},
		{CausePodReset, func(e evidence) bool { return e.trail == trailPodReset }},
		{CausePod, func(e evidence) bool { return e.trail == trailPodLate || e.trail == trailPodEnd }},
		{CauseLagUnready, func(e evidence) bool { return e.lag() && e.pods().unready && e.connectFailed() }},
		{CauseLagPodAlive, func(e evidence) bool { return e.lag() && e.pods().serve && e.connectFailed() }},
		{CauseNodeDrop, func(e evidence) bool { return e.trail == trailNodeSilent }},
		{CauseNodeReject, func(e evidence) bool { return e.trail == trailNodeRefused }},
		{CausePod, evidence.hungUp},
		{CauseUnknown, func(e evidence) bool { return e.s.Unseen }},
		{CauseSrvRefused, evidence.refusedBehind},
		{CauseSrvReset, evidence.resetBehind},
		{CauseSrvSilent, evidence.silentBehind},
	}
}

func causeOf(e evidence) Cause {
	for _, r := range rules() {
		if r.is(e) {
			return r.cause
		}
	}
	return CauseUnknown
}

// hostWasSick: the control stream, which no dataplane forwards, had trouble while this
// attempt was under way and its client still waited. That explains what took long, and neither
// a refusal, nor a SYN that was sent again, nor packets that came to a node and went no
// further.
func (e evidence) hostWasSick() bool {
	return e.stallable() && !e.trail.network() && e.harness.sickDuring(e.outcome, e.s)
}

// stallable: a host that stands still for a while may have made this of an attempt.
func (o outcome) stallable() bool {
	sentAgain := o.Connected-o.Start >= synResend.Nanoseconds() || o.conn != nil && (o.conn.DialMS < 0 || o.dialled() >= synResend)
	return o.late() && !sentAgain
}

// late: an answer that took long, or had not come when the client gave up.
func (o outcome) late() bool {
	return o.class.Slow() || o.class == DialTimeout || o.class == RespTimeout
}

// heardWithin is how long a dataplane may take to hear that a pod is gone: kube-proxy's
// minSyncPeriod of 1 s, twice.
const heardWithin = 2 * time.Second

// synResend is a little less than the first wait of a kernel for the answer to a SYN
// (RFC 6298, 2.1: 1 s).
const synResend = 950 * time.Millisecond

// balanced: there is a load balancer of ours in front.
func (e evidence) balanced() bool { return e.s.LB != "" }

func (e evidence) noServer() bool {
	if e.conn != nil {
		return e.conn.Server == noServer
	}
	return e.class.Lost() && e.Connected != 0 && len(e.tl.Known(record.KindServer)) > 0 && len(e.tl.Up(e.Start)) == 0
}

func refusedDial(c Class) bool { return c == DialRefused || c == DialReset || c == DialICMP }

// balancerWasSilent: the client's SYN was not answered, or not the first one; or the
// kernel answered it, and HAProxy took the connection up only later.
func (e evidence) balancerWasSilent() bool {
	if !e.balanced() {
		return false
	}
	if e.class == DialTimeout || e.class == OKSlowConnect {
		return true
	}
	return e.conn != nil && !e.conn.Open && e.Connected != 0 && e.conn.Accepted-e.Connected >= SlowAfter.Nanoseconds()
}

// requestSentAgain: the balancer did not acknowledge the request at once, which its kernel does
// whatever the server does; where packets do not show that it was handed on and waited for.
func (e evidence) requestSentAgain() bool {
	return e.balanced() && e.trail == trailUnknown && e.late() && e.Retrans > 0 && e.connected() && e.dialled() < SlowAfter
}

// resetBeforeBalancer: the client met a reset, and so did HAProxy on the client's side
// (configuration manual, 8.5: C in first place).
func (e evidence) resetBeforeBalancer() bool {
	reset := e.class == ResetBeforeResp || e.class == ResetMidBody || e.class == WriteEPIPE
	return reset && e.conn != nil && len(e.conn.Term) > 0 && (e.conn.Term[0] == 'C' || e.conn.Term[0] == 'c')
}

// exitKnown is how long after its end a balancer's process may be known to have ended: Docker tells
// of a container late.
const exitKnown = time.Second

// balancerEnded: the connection was open when the balancer's process ended, which logs nothing of it.
func (e evidence) balancerEnded() bool {
	if !e.balanced() || e.conn != nil || e.Connected == 0 || e.class.Success() {
		return false
	}
	return slices.ContainsFunc(e.tl.Starts(timeline.Start{Kind: record.KindLB, State: record.LBExit}), func(x record.Event) bool {
		return x.At >= e.Start && x.At <= e.waited(e.s)+exitKnown.Nanoseconds()
	})
}

// stale: the node may have sent it to a pod that was gone, of which it could not hear; no pod
// answered, or only after the balancer had dialled for long.
func (e evidence) stale() bool {
	if !e.s.Cluster || len(unheardOf(e.tl, e.outcome, e.s)) == 0 {
		return false
	}
	return e.Pod == "" || e.dialled() >= SlowAfter
}

// appAnswered: what came is an answer of the workload's, but not the one that was due.
func (e evidence) appAnswered() bool {
	switch e.class {
	case HTTP4xx, HTTP5xxApp, BadBody, ShortBody:
		return true
	case ResetMidBody: // half an answer came all the way
		return e.trail == trailUnknown
	}
	return false
}

// hungUp: the connection behind the LB was open and was closed in order, with no answer.
func (e evidence) hungUp() bool {
	return e.class == EOFBeforeResp && e.connected() && e.conn.Term == "--"
}

// dialled is how long the LB took to connect to the server; 0: not known, or it did not.
func (o outcome) dialled() time.Duration {
	if o.conn == nil || o.conn.DialMS < 0 {
		return 0
	}
	return time.Duration(o.conn.DialMS) * time.Millisecond
}

// connected: the LB's connection to the server was open within the client's patience.
func (e evidence) connected() bool {
	return e.conn != nil && e.conn.DialMS >= 0 && e.dialled() < e.s.Timeout
}

// connectFailed: the connection behind the LB was not opened, or not at the first SYN.
func (e evidence) connectFailed() bool {
	if e.balanced() || e.conn != nil {
		return e.conn == nil || !e.connected() || e.dialled() >= synResend
	}
	return e.Connected == 0 || e.Connected-e.Start >= synResend.Nanoseconds()
}

// refusedBehind: no connection, and an answer that said so.
func (e evidence) refusedBehind() bool {
	if e.conn == nil {
		return !e.balanced() && refusedDial(e.class) || e.balanced() && e.class == EOFBeforeResp && e.dead() && !e.deadSilently()
	}
	return !e.connected() && (e.class == EOFBeforeResp || e.class == ResetBeforeResp || e.class == HTTP5xxLB)
}

// resetBehind: HAProxy saw the server break off an open connection (SD), or who has no LB
// in front did.
func (e evidence) resetBehind() bool {
	broken := e.class == EOFBeforeResp || e.class == ResetBeforeResp || e.class == ResetMidBody || e.class == WriteEPIPE
	return broken && (e.connected() || e.conn == nil && !e.balanced())
}

// silentBehind: nothing came until the client, or its patience, was at an end; or it came
// after something was sent again.
func (e evidence) silentBehind() bool {
	switch {
	case e.class == RespTimeout, e.class == DialTimeout && !e.balanced():
		return e.conn != nil || !e.balanced() || e.deadSilently()
	case e.class.Slow():
		return e.dialled() >= SlowAfter || !e.balanced()
	}
	return false
}

// dead: a direct connection to the node failed at that time, or in the same poll.
func (e evidence) dead() bool { return e.may(func(s string) bool { return s != timeline.Forwards }) }

func (e evidence) deadSilently() bool { return e.may(timeline.Silent) }

func (e evidence) may(is func(string) bool) bool {
	if e.node == "" {
		return false
	}
	for _, s := range e.tl.Changing(record.KindNodePort, e.node, e.Start) {
		if s != "" && is(s) {
			return true
		}
	}
	return false
}

// lag: the LB still sent to a node that had told it not to, and that did not forward.
func (e evidence) lag() bool {
	if !e.dead() {
		return false
	}
	for _, s := range e.tl.Changing(record.KindHCNP, e.node, e.Start) {
		if s != "" && s != timeline.Healthy {
			return true
		}
	}
	return false
}

// fate of the pods on the node of an attempt; none of these: nothing is known of them.
type fate struct{ gone, unready, serve bool }

func (e evidence) pods() fate { return e.podsBefore(0) }

// podsBefore is the fate of the pods so long before the attempt.
func (e evidence) podsBefore(d time.Duration) fate {
	known, lived, served := e.tl.Pods(e.node, e.Start-d.Nanoseconds())
	return fate{gone: known && !lived, unready: known && lived && !served, serve: known && lived && served}
}
