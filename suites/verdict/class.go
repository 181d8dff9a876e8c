package verdict

import (
	"net/http"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// Classify names the outcome of one attempt for a client that waits timeout.
// What came later than that did not come in time, whatever it was: attempts
// run to the probe's hard deadline and are cut here, so that one recording
// serves every timeout.
func Classify(a record.Attempt, timeout time.Duration) Class {
	switch {
	case a.Failure == record.FailNotSent:
		return NotSent
	case a.Phase == record.PhaseDial && localFailure(a.Failure):
		return DialLocal
	case late(a.End, a.Start, timeout):
		if a.Connected == 0 || late(a.Connected, a.Start, timeout) {
			return DialTimeout
		}
		return RespTimeout
	case a.Failure != "":
		return classifyFailure(a.Phase, a.Failure)
	case a.Phase != record.PhaseDone:
		return Unclassified // the record contradicts itself
	}
	return classifyAnswer(a)
}

func late(at, start int64, timeout time.Duration) bool {
	return at-start > timeout.Nanoseconds()
}

// localFailure tells this host's own limits from the network's answers. EPERM
// is netfilter refusing our own SYN on the way out.
func localFailure(f string) bool {
	switch f {
	case "EADDRNOTAVAIL", "EADDRINUSE", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EAGAIN", "EPERM", "EINVAL", "EAFNOSUPPORT":
		return true
	}
	return false
}

func classifyFailure(p record.Phase, f string) Class {
	if p == record.PhaseDial {
		return classifyDial(f)
	}
	switch {
	case f == "ETIMEDOUT", f == record.FailTimeout:
		return RespTimeout
	case p == record.PhaseWrite && f == "EPIPE":
		return WriteEPIPE
	case p == record.PhaseBody && f == "ECONNRESET":
		return ResetMidBody
	case f == "ECONNRESET":
		return ResetBeforeResp
	case p == record.PhaseRead && f == record.FailEOF:
		return EOFBeforeResp
	case p == record.PhaseBody && f == record.FailEOF:
		return ShortBody
	case p == record.PhaseBody && f == record.FailProto:
		return BadBody
	}
	return Unclassified
}

func classifyDial(f string) Class {
	switch f {
	case "ECONNREFUSED":
		return DialRefused
	case "ECONNRESET", "ECONNABORTED":
		return DialReset
	case "ETIMEDOUT", record.FailTimeout:
		return DialTimeout
	// The kernel's tables of ICMP errors: icmp_err_convert in
	// net/ipv4/icmp.c and tab_unreach in net/ipv6/icmp.c.
	case "EHOSTUNREACH", "ENETUNREACH", "EACCES", "ENOPROTOOPT", "EHOSTDOWN", "ENONET", "EOPNOTSUPP":
		return DialICMP
	}
	return Unclassified
}

func classifyAnswer(a record.Attempt) Class {
	took := a.End - a.Start
	switch {
	case a.Status >= 500:
		return classify5xx(a)
	case a.Status >= 400:
		return HTTP4xx
	case a.Status != http.StatusOK || !a.BodyOK:
		return BadBody
	case a.Connected-a.Start >= SlowAfter.Nanoseconds():
		return OKSlowConnect
	case took < SlowAfter.Nanoseconds(): // a tail-loss probe of a busy host resends sooner (RFC 8985), and nobody waited
	case a.Retrans > 0:
		return OKRetrans
	default:
		return OKSlow
	}
	if a.Terminating {
		return OKFromTerminating
	}
	return OK
}

// classify5xx: a proxy's own error page carries no pod's name.
func classify5xx(a record.Attempt) Class {
	switch a.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if a.Pod == "" {
			return HTTP5xxLB
		}
	}
	return HTTP5xxApp
}
