package model

import (
	"fmt"
	"time"
)

// Transitions are M times that "the last local ready endpoint of a node goes
// away", with Nodes servers UP at the load balancer each time.
type Transitions struct {
	Nodes int
	Count int
	// Back is tau: from the end of forwarding until a new local endpoint is
	// forwarded to. 0: never, the pod moves to another node.
	Back time.Duration
}

// ManyNodes predicts the loss of M transitions together. A transition costs
// lambda/n * W, with the window
//
//	ignore:   W = (d-X)+ + min(L, tau)            L = U + (F-1) I_f + c
//	fallback: W = min((d + L - X)+, tau)
//
// and the variance (lambda/n)^2 Var(W), plus, for servers picked at random,
// lambda/n (1-1/n) E[W].
func ManyNodes(in Inputs, t Transitions) (Prediction, error) {
	if err := in.check(); err != nil {
		return Prediction{}, err
	}
	if t.Nodes < 1 || t.Count < 0 || t.Back < 0 {
		return Prediction{}, fmt.Errorf("predict %d transitions of %d nodes, back after %s: must not be negative, and at least one node", t.Count, t.Nodes, t.Back)
	}
	n := float64(t.Nodes)
	m := integrate1(in.LB.Interval.Seconds(), func(u float64) (float64, float64) {
		w := in.window(u, t.Back.Seconds())
		noise := 0.0
		if in.LB.Random {
			noise = in.Rate / n * (1 - 1/n) * w
		}
		return in.Rate / n * w, noise
	})
	p := m.prediction(t.Count, in)
	p.SafeDelay = in.SafeDelay().Seconds()
	return p, nil
}

// window is W at the phase u, in seconds.
func (in Inputs) window(u, back float64) float64 {
	cut := func(w float64) float64 {
		if back > 0 {
			return min(w, back)
		}
		return w
	}
	l := u + in.LB.removalMin().Seconds()
	d := in.Propagation.Seconds()
	if in.Semantics == Ignore {
		return max(0, d-in.Serves().Seconds()) + cut(l)
	}
	return cut(max(0, d+l-in.deadAt().Seconds()))
}
