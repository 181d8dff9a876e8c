package mutant

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// programMutations are of plumb-ebpf alone: of what its programs do with packets and at sockets, which no
// plan can say. The functions are those of dataplane/ebpf/bpf.
func programMutations() map[string]func(*changes) {
	const shot, goesOn = 2, 1 // TC_ACT_SHOT; and at sockets that the call goes on as it is
	return map[string]func(*changes){
		"ebpf-masqueraded-answers-lost":      altered(devices, skipping("try_snat", calls("claim"), 0)), // no entry S
		"ebpf-nothing-masqueraded":           altered(devices, returning("masquerade", 0)),              // no entries M and S
		"ebpf-later-fragments-dropped":       altered(devices, returning("later_fragment", shot)),
		"ebpf-udp-checksum-misplaced":        altered(devices, moving("translate", 6, 10)), // of UDP's header of 8 bytes
		"ebpf-resets-not-sent":               altered(devices, returning("reset", -1)),
		"ebpf-unreachables-not-sent":         altered(devices, returning("unreachable", -1)),
		"ebpf-udp-endpoints-kept":            altered(devices, skipping(devices, helper(asm.FnMapLookupElem, "plumb_members"), 1)), // is_stale finds every one
		"ebpf-single-addresses-not-admitted": altered(devices, moving("decide", 160, 159)),                                         // bits of a whole key
		"ebpf-entries-of-others-replaced":    altered(devices, moving("claim", 1, 0)),                                              // BPF_ANY for BPF_NOEXIST
		"ebpf-few-connections-remembered":    fewRemembered(4096),
		"ebpf-first-slot-for-all":            altered(everywhere, skipping("decide", helper(asm.FnGetPrandomU32, ""), 0)),
		"ebpf-clients-not-remembered":        altered(everywhere, skipping("", helper(asm.FnMapUpdateElem, "plumb_affinity"), 0)),
		"ebpf-clients-told-by-sockets":       altered(sockets, calling(asm.FnGetNetnsCookie, asm.FnGetSocketCookie)),
		"ebpf-sendmsg-not-translated":        altered(sockets, returning("plumb_sendmsg4", goesOn), returning("plumb_sendmsg6", goesOn)),
		"ebpf-sendmsg6-not-translated":       altered(sockets, returning("plumb_sendmsg6", goesOn)),
		"ebpf-recvmsg-not-translated":        altered(sockets, returning("plumb_recvmsg4", goesOn), returning("plumb_recvmsg6", goesOn)),
		"ebpf-icmp-errors-not-translated":    altered(devices, returning("icmp_error4", -3), returning("icmp_error6", -3)), // NO_ENTRY
		"ebpf-calls-forbidden-not-refused":   altered(sockets, skipping("", helper(asm.FnSetRetval, ""), 0)),               // who says no more says EPERM
	}
}

// fewRemembered has a map of so many entries for connections, of which the one not used for longest makes room.
func fewRemembered(entries uint32) func(*changes) {
	return func(c *changes) {
		c.programs = func(spec *ebpf.CollectionSpec) error {
			if spec.Programs[devices] != nil {
				spec.Maps["plumb_flows"].MaxEntries = entries
			}
			return nil
		}
	}
}
