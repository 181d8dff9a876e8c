package verdict

import (
	"math"
	"time"
)

// reconstruct sums, over the attempts that were sent, the probability that the
// load balancer gave the attempt to a server that does not forward. It looks at
// states only, never at what became of the attempt.
func reconstruct(out []outcome, tl timeline, s Settings) Reconstruction {
	r := Reconstruction{Possible: len(tl.server) > 0 && len(tl.nodePort) > 0}
	if !r.Possible {
		return r
	}
	for _, o := range out {
		if o.class.Harness() {
			continue
		}
		up := tl.up(o.Start)
		if len(up) == 0 {
			r.NoServer++
			continue
		}
		share := 1 / float64(len(up))
		for _, node := range up {
			switch {
			case !tl.dead(node, o.Start):
			case rescued(tl, node, o.Start, s):
				r.Slow += share
			default:
				r.DeadNode += share
			}
		}
	}
	r.Lost = r.NoServer + r.DeadNode
	return r
}

// rescued reports whether a later try of the same connection, a resent SYN or
// a redial of the same server, would have found the node forwarding again
// within the client's patience.
func rescued(tl timeline, node string, t int64, s Settings) bool {
	for _, after := range redials(tl.drops(node, t), s) {
		if after < s.Timeout && !tl.dead(node, t+after.Nanoseconds()) {
			return true
		}
	}
	return false
}

// redials are the times after a connection's first SYN at which the next ones
// go out. Linux resends a SYN after 1, 3 and 7 s (tcp_syn_linear_timeouts adds
// some, at 1 s distance, on kernels that have it; the first is what decides for
// clients of 2.5 s). HAProxy redials the same server at once after a timeout,
// and a second after a refusal (configuration manual, "retries").
func redials(silent bool, s Settings) []time.Duration {
	var all []time.Duration
	if !silent {
		for i := range s.Retries {
			all = append(all, time.Duration(i+1)*time.Second)
		}
		return all
	}
	limit := s.Connect
	if limit <= 0 {
		limit = s.Timeout
	}
	for i := range s.Retries + 1 {
		base := time.Duration(i) * limit
		for _, syn := range []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second} {
			if syn < limit {
				all = append(all, base+syn)
			}
		}
	}
	return all
}

func (r *Reconstruction) compare(lost int, l Limits) {
	if !r.Possible {
		return
	}
	r.Residual = float64(lost) - r.Lost
	r.Within = math.Abs(r.Residual) <= max(l.ResidualAbs, l.ResidualPart*float64(lost))
}
