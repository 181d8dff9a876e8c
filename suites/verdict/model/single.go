package model

import (
	"errors"
	"fmt"
	"time"
)

// SingleReplica predicts the loss of a number of rollouts together, of a
// Deployment with one replica that moves between two nodes (anti-affinity,
// maxSurge 1, maxUnavailable 0): old and new server are the only ones the load
// balancer can have, and the old pod is deleted when the new one has been
// ready for MinReady.
//
// With t = 0 at the deletion, a rollout is four times:
//
//	dead = when the old node stops forwarding:  ignore min(X, d), fallback X
//	down = when the LB gives the old node up:   d + U + (F-1) I_f + c
//	up   = when the LB admits the new node:     d - m + U' + (R-1) I_f + c
//	and D / lambda = (up - min(dead, down))+ + 1/2 (down - max(dead, up))+
//
// where the first term is the time without any working server, the second the
// time in which every other connection still goes to the dead one.
//
// U and U' are each uniform, and the computation takes them to be independent.
// For one rollout with one HAProxy they are not quite: it starts the checks of
// its n servers I*pos/n apart (start_check_task in check.c), and they keep that
// offset but for a slow drift, since each server's period is inter plus the
// duration of its own check. What counts is the offset of the checks less the
// time between the two changes they detect, modulo I, and over a short series
// it hardly moves, however much the restarts are spread over the interval.
// Min and Max hold for every offset, and where both windows are fully exposed
// (F >= 2, R = 1) the mean is the same for all; the deviation is not. Of one
// rollout under Ignore at lambda = 100, I = 2 s:
//
//	offset I/2     sqrt(1/2) of the independent one   28.9
//	independent    (lambda/2) I sqrt(1/12 + 1/12)     40.8
//	in phase       sqrt(2) of the independent one     57.7
//
// The independent variance is the average of the variances over all offsets,
// and the one the single-replica formula gives; its band is too wide for one
// short series and too narrow for another. verdict.Observed has L and L_up as
// measured (Removal, Admission), so that a series can be held against it.
func SingleReplica(in Inputs, rollouts int) (Prediction, error) {
	if err := in.check(); err != nil {
		return Prediction{}, err
	}
	if rollouts < 0 {
		return Prediction{}, fmt.Errorf("predict %d rollouts: must not be negative", rollouts)
	}
	dead := in.deadAt().Seconds()
	removal := (in.Propagation + in.LB.removalMin()).Seconds()
	admission := (in.Propagation - in.MinReady - in.Controller + in.LB.admissionMin()).Seconds()
	loss := func(u, v float64) (full, half float64) {
		down, up := removal+u, admission+v
		return max(0, up-min(dead, down)), max(0, down-max(dead, up))
	}
	m := integrate2(in.LB.Interval.Seconds(), in.LB.down().Seconds(), func(u, v float64) (float64, float64) {
		full, half := loss(u, v)
		noise := 0.0
		if in.LB.Random {
			noise = in.Rate * half / 4 // binomial: one half each
		}
		return in.Rate * (full + half/2), noise
	})
	p := m.prediction(rollouts, in)
	p.SafeDelay = in.SafeDelay().Seconds()
	if removal < admission+in.LB.down().Seconds() {
		p.Note = "the load balancer may give up the old node before it admits the new one: no shutdown delay rules out a loss"
	}
	return p, nil
}

// deadAt is when the old node stops forwarding to its pod, after the deletion.
func (in Inputs) deadAt() time.Duration {
	x := in.Serves()
	if in.Semantics == Ignore {
		return min(x, in.Propagation)
	}
	if in.UnreadyAfter > 0 {
		return min(x, in.Kubelet+min(in.PreStop, in.Grace)+in.UnreadyAfter+in.Propagation)
	}
	return x
}

// SafeDelay is the shortest preStop plus app delay with which the old pod
// outlives the load balancer's slowest detection: d + I + (F-1) I_f + c - d_k.
func (in Inputs) SafeDelay() time.Duration {
	return max(0, in.Propagation+in.LB.Interval+in.LB.removalMin()-in.Kubelet)
}

// removalMin is L without its phase: (F-1) I_f + c.
func (lb LB) removalMin() time.Duration { return time.Duration(lb.Fall-1)*lb.fast() + lb.Check }

// admissionMin is L_up without its phase: I_f + c.
func (lb LB) admissionMin() time.Duration { return time.Duration(lb.Rise-1)*lb.fast() + lb.Check }

func (lb LB) fast() time.Duration {
	if lb.Fast > 0 {
		return lb.Fast
	}
	return lb.Interval
}

func (lb LB) down() time.Duration {
	if lb.Down > 0 {
		return lb.Down
	}
	return lb.Interval
}

func (in Inputs) check() error {
	for _, d := range []time.Duration{
		in.LB.Fast, in.LB.Down, in.LB.Check, in.Propagation, in.Kubelet, in.PreStop,
		in.Delay, in.Grace, in.MinReady, in.Controller, in.UnreadyAfter, in.Slack,
	} {
		if d < 0 {
			return fmt.Errorf("predict: a duration of %s: must not be negative", d)
		}
	}
	switch {
	case !(in.Rate > 0):
		return fmt.Errorf("predict: a rate of %v/s: must be above 0", in.Rate)
	case in.LB.Interval <= 0:
		return errors.New("predict: the load balancer's check interval must be above 0")
	case in.LB.Fall < 1 || in.LB.Rise < 1:
		return fmt.Errorf("predict: fall %d, rise %d: both must be at least 1", in.LB.Fall, in.LB.Rise)
	case in.Semantics != Ignore && in.Semantics != Fallback:
		return fmt.Errorf("predict: semantics %q: must be %s or %s", in.Semantics, Ignore, Fallback)
	}
	return nil
}
