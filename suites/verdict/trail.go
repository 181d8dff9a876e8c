package verdict

// trail is what became of a request's packets, as taps on its way saw them.
type trail int

const (
	trailUnknown     trail = iota // nobody looked, or it cannot be told
	trailNodeSilent               // they reached the node; nothing went on, and nothing came back
	trailNodeRefused              // the node answered the SYN with RST or ICMP, and had not handed it on
	trailNodeReset                // the node reset an open connection, and no pod had
	trailPodSilent                // they reached the pod; no answer to the SYN, or to the data, came out
	trailPodRefused               // the pod answered the SYN with RST or ICMP
	trailPodReset                 // the pod reset an open connection
	trailPodLate                  // the pod acknowledged the request, and answered late or never
)

// packets are those that taps saw; nil: there were none.
type packets struct{}

func (p *packets) follow(outcome) trail { return trailUnknown }
