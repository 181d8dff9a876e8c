package verdict

// explain names the cause of every loss.
func explain(out []outcome, tl timeline) {
	for i := range out {
		if out[i].class.Lost() {
			out[i].cause = causeOf(out[i], tl)
		}
	}
}

func causeOf(o outcome, tl timeline) Cause {
	switch {
	case o.conn != nil && o.conn.Server == noServer:
		return CauseNoServer
	case o.conn == nil && len(tl.server) > 0 && len(tl.up(o.Start)) == 0:
		return CauseNoServer
	case o.node == "":
		return CauseUnknown
	case tl.dead(o.node, o.Start):
		return causeDead(o, tl)
	case o.conn == nil:
		return CauseUnknown
	case o.conn.DialMS >= 0:
		return CausePod // the LB's connection was accepted behind the node
	}
	// The node forwarded a moment before or after, but not this one.
	if o.class == RespTimeout || isTimeout(o.Failure) {
		return CauseNodeDrop
	}
	return CauseNodeReject
}

// causeDead: a direct connection to the node failed as well.
func causeDead(o outcome, tl timeline) Cause {
	known, lived, served := tl.pods(o.node, o.Start)
	health := tl.hcnp[o.node].at(o.Start)
	lag := health != "" && health != stateOK200
	switch {
	case !known && lag:
		return CauseUnknown // blame needs evidence
	case lag && !lived:
		return CauseLagPodGone
	case lag && !served:
		return CauseLagUnready
	case lag:
		return CauseLagPodAlive
	case known && !lived:
		return CausePod // gone before the dataplane heard of it
	case tl.drops(o.node, o.Start):
		return CauseNodeDrop
	}
	return CauseNodeReject
}
