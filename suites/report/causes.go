package report

import "github.com/plumbline/plumbline/suites/verdict"

// meaning is what a cause's code word says to who reads it for the first time.
type meaning struct {
	Who  string // who has to look at it
	What string // what happened, of the requests that were lost or late for it
	Why  string // the rule behind it, or what to do; may be empty
}

// meaningOf explains every cause of package verdict.
func meaningOf(c verdict.Cause) meaning {
	return map[verdict.Cause]meaning{
		verdict.CauseHarness: {"the harness's host", "the host stood still: the control stream, which no dataplane forwards, failed or was slow at that moment too",
			"run it on a quieter host"},
		verdict.CauseCheckFailed: {"the dataplane", "a node whose pod was ready did not answer its health check with 200, so that the load balancer held no server UP",
			"where a local endpoint is ready, healthCheckNodePort answers 200"},
		verdict.CauseNoServer:  {"the workload, or the load balancer's checks", "no server was UP: no pod was ready, or the checks had not told so yet", ""},
		verdict.CauseLBRefused: {"the load balancer", "its own stack refused or reset the client's connection", ""},
		verdict.CauseLBSilent:  {"the load balancer", "it did not answer the client's SYN, or took the connection up late", ""},
		verdict.CauseLBReset:   {"the load balancer", "a connection was reset between the client and it", ""},
		verdict.CauseMisrouted: {"the dataplane", "the node gave the connection to a pod that is not a local one of this Service",
			"under externalTrafficPolicy=Local only the node's own pods may get it"},
		verdict.CauseStale: {"nobody, while the API is away", "the node sent to a pod that had been deleted, of which it could not hear", ""},
		verdict.CauseRemembered: {"the node's connection tracking", "it led the connection after an earlier one from the same port that nobody had answered",
			"it remembers one for nf_conntrack_tcp_timeout_syn_sent"},
		verdict.CauseLagPodAlive: {"the dataplane", "the node no longer forwarded to its terminating pod, which still served; the load balancer sent on until its checks had noticed",
			"terminating endpoints that serve are to be used where there are no others (KEP-1669)"},
		verdict.CauseLagPodGone: {"who runs the workload", "the pod had ended before the load balancer's checks took its node out",
			"the pod has to serve, after SIGTERM or in preStop, for longer than the load balancer needs to notice"},
		verdict.CauseLagUnready: {"who runs the workload", "the terminating pod failed its readiness, so that the node may not use it, before the load balancer's checks took the node out",
			"keep the readiness probe succeeding while the pod shuts down"},
		verdict.CauseNodeDrop:   {"the dataplane", "packets reached the node and went no further, or the answer did not leave it in time", ""},
		verdict.CauseNodeReject: {"the dataplane", "the node refused the connection itself", ""},
		verdict.CauseNodeReset:  {"the dataplane", "the node reset a connection that was open", ""},
		verdict.CausePodDrop:    {"the pod", "packets reached it, and it answered none of them in time", ""},
		verdict.CausePodReject:  {"the pod", "it refused the connection", ""},
		verdict.CausePodReset:   {"the pod", "it reset an open connection", ""},
		verdict.CausePod:        {"the pod", "it answered late, or not what was asked for, or hung up", ""},
		verdict.CauseSrvSilent:  {"the dataplane or the pod", "nothing came from behind the load balancer in time; no record says at which of the two", ""},
		verdict.CauseSrvRefused: {"the dataplane or the pod", "the connection was refused behind the load balancer; no record says by which of the two", ""},
		verdict.CauseSrvReset:   {"the dataplane or the pod", "an open connection was reset behind the load balancer; no record says by which of the two", ""},
		verdict.CauseUnknown:    {"not known", "no record explains it", ""},
	}[c]
}
