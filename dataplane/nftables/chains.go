package nftables

import (
	"fmt"
	"time"

	lib "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// chain is a chain with its rules, and its hook if it is a base chain.
type chain struct {
	name  string
	hook  *hook
	rules []rule
}

// hook is where a base chain is called.
type hook struct {
	typ      lib.ChainType
	num      uint32
	priority int32
}

// classChain is the chain of a class. In a chain for n endpoints the last pick
// serves a packet whose lookups fell on both sides of a change: the frontend
// still had n slots, and the chosen one is gone. Slot 0 is the last to go. The
// drop is for a frontend that went altogether: silence, so that the client's
// next attempt meets the new rules.
func (f family) classChain(c class) chain {
	out := chain{name: c.chainName()}
	if c.guarded {
		out.rules = []rule{f.refuseSources(), f.dispatch(viewServicesInside, f.fromLocalPod()), goTo(c.past().chainName())}
		return out
	}
	switch c {
	case classReject:
		out.rules = []rule{cat(isTCP(), rule{wrapped{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}}), f.reject()}
		return out
	case classDrop:
		out.rules = []rule{verdict(expr.VerdictDrop)}
		return out
	}
	if c.sticky {
		out.rules = []rule{f.affinitySlot(c.view), f.dropAffinity(c.view)}
	}
	out.rules = append(out.rules, f.pick(c.view, uint32(c.n)), f.firstSlot(c.view), verdict(expr.VerdictDrop))
	return out
}

// learnerName is the chain that remembers clients for a time.
func learnerName(seconds uint32) string { return fmt.Sprintf("remember-%ds", seconds) }

// learnerChain remembers where a client was sent, by the frontend it meant.
func (f family) learnerChain(seconds uint32) chain {
	t := time.Duration(seconds) * time.Second
	return chain{name: learnerName(seconds), rules: []rule{f.remember(false, t), f.remember(true, t)}}
}

// The names of chains that are called by others.
const (
	chainNode      = "to-node"
	chainSelf      = "to-node-inside"
	chainMeantNode = "meant-node"
	chainLearn     = "remember"
	chainLearnNode = "remember-node"
	chainUnclaimed = "unclaimed"
)

// plainChains are those without a hook that do not depend on the plan. A chain is
// listed after the chains it calls.
func (f family) plainChains() []chain {
	masq := rule{wrapped{&expr.Masq{FullyRandom: true}}}
	taken := cat(f.lookup(setServices, false, original), clearPriority(), verdict(expr.VerdictReturn))
	learn := func(port bool, set setID) rule { return cat(f.lookup(set, port, original), f.gotoMap(setLearners)) }
	meant := func(set setID) rule { return cat(f.keyIn(true, original, set)) }
	return append(f.slotChains(),
		f.classChain(classReject),
		f.classChain(classDrop),
		chain{name: chainNode, rules: []rule{f.dispatch(viewNodePortsInside, f.fromLocalPod()), f.dispatch(viewNodePorts)}},
		chain{name: chainSelf, rules: []rule{f.dispatch(viewNodePortsInside), f.dispatch(viewNodePorts)}},
		chain{name: chainMeantNode, rules: []rule{
			taken, // an address of the node may be a load balancer's, and that is looked up first
			cat(meant(setMasqAlwaysPorts), masq),
			cat(meant(setMasqNodePorts), fromSelf(), masq),
			cat(meant(setMasqNodePorts), f.toItself(setHairpinInside), masq),
		}},
		chain{name: chainLearnNode, rules: []rule{taken, learn(true, setTimeoutPorts)}},
		chain{name: chainLearn, rules: []rule{learn(false, setTimeouts), cat(f.meantNode(), goTo(chainLearnNode))}},
		chain{name: chainUnclaimed, rules: []rule{
			cat(rule{f.addr(f.daddr, reg0), f.in(setClusterIPs)}, goTo(classReject.chainName())),
			cat(rule{f.addr(f.daddr, reg0), f.in(setServiceCIDRs)}, verdict(expr.VerdictDrop)),
		}},
	)
}

func (f family) slotChains() []chain {
	var out []chain
	for v := viewServices; v <= views; v++ {
		for part := range slotParts {
			out = append(out, f.slotChain(v, part))
		}
	}
	return out
}

// keyIn matches a frontend's key against a set.
func (f family) keyIn(port bool, from tuple, set setID) rule {
	r, _ := f.key(port, from)
	return append(r, f.in(set))
}

// baseChains call the others. Those of type nat see the first packet of a
// connection alone, and only until one of them has chosen an address.
//
// Learning and masquerading come one before the usual place of source NAT: there
// the source is still the client's, whatever others masquerade.
func (f family) baseChains() []chain {
	dst, src := int32(*lib.ChainPriorityNATDest), int32(*lib.ChainPriorityNATSource)-1
	filter := int32(*lib.ChainPriorityFilter)
	return []chain{
		{name: "prerouting", hook: &hook{lib.ChainTypeNAT, unix.NF_INET_PRE_ROUTING, dst}, rules: []rule{
			f.dispatch(viewServices),
			cat(f.toNode(), goTo(chainNode)),
		}},
		{name: "output", hook: &hook{lib.ChainTypeNAT, unix.NF_INET_LOCAL_OUT, dst}, rules: []rule{
			f.refuseSources(),
			f.dispatch(viewServicesInside),
			f.dispatch(viewServices),
			cat(f.toNode(), goTo(chainSelf)),
		}},
		{name: "input", hook: &hook{lib.ChainTypeNAT, unix.NF_INET_LOCAL_IN, src}, rules: []rule{
			cat(notTaken(), verdict(expr.VerdictReturn)),
			f.learn(),
		}},
		{name: "postrouting", hook: &hook{lib.ChainTypeNAT, unix.NF_INET_POST_ROUTING, src}, rules: f.postrouting()},
		{name: "forward", hook: &hook{lib.ChainTypeFilter, unix.NF_INET_FORWARD, filter}, rules: []rule{
			cat(isNew(), notTaken(), goTo(chainUnclaimed)),
		}},
		{name: "leave", hook: &hook{lib.ChainTypeFilter, unix.NF_INET_LOCAL_OUT, filter}, rules: []rule{
			cat(notLoopback(), isNew(), notTaken(), goTo(chainUnclaimed)),
		}},
	}
}

// refuseSources drops who is outside of a frontend's source ranges.
func (f family) refuseSources() rule {
	key, next := f.key(false, current)
	return cat(f.keyIn(false, current, setRestricted), key, rule{f.addr(f.saddr, next), f.notIn(setSources)}, verdict(expr.VerdictDrop))
}

// postrouting masquerades by the destination the client meant, which conntrack
// knows, so that no mark is needed.
func (f family) postrouting() []rule {
	masq := rule{wrapped{&expr.Masq{FullyRandom: true}}}
	out := []rule{cat(notTaken(), verdict(expr.VerdictReturn)), f.learn()}
	for _, outsiders := range f.offCluster() {
		out = append(out, cat(f.keyIn(false, original, setMasqOffCluster), outsiders, masq))
	}
	return append(out,
		cat(f.keyIn(false, original, setMasqAlways), masq),
		cat(f.keyIn(false, original, setMasqNode), fromSelf(), masq),
		cat(f.keyIn(false, original, setMasqNode), f.toItself(setHairpinInside), masq),
		cat(f.meantNode(), jumpTo(chainMeantNode)),
		cat(f.toItself(setHairpin), masq),
	)
}

// toItself matches what goes from an endpoint of a set to itself.
func (f family) toItself(set setID) rule {
	return rule{f.addr(f.saddr, reg0), f.addr(f.daddr, reg0+f.regs()), f.in(set)}
}

// fromSelf matches a source address of this node.
func fromSelf() rule {
	return rule{wrapped{&expr.Fib{Register: reg0, FlagSADDR: true, ResultADDRTYPE: true}},
		wrapped{&expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: native(unix.RTN_LOCAL)}}}
}

// notLoopback leaves alone what stays inside the node: somebody may serve a
// ClusterIP there (a node-local DNS cache binds one). Loopback is link 1 in
// every namespace.
func notLoopback() rule {
	return rule{load(expr.MetaKeyOIF, reg0), wrapped{&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: native(1)}}}
}
