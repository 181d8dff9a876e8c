package behaviours

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

// Nobody is to answer at a node port that was a Service's, and others may be given it
// meanwhile: what expects that runs alone.
func TestFreedNodePorts(t *testing.T) {
	met := 0
	for _, b := range All() {
		silent := func(r kit.Round) bool { return r.Freed && !r.Answers }
		if !slices.ContainsFunc(plan(t, b, corev1.IPv4Protocol, kit.Enough).Rounds, silent) {
			continue
		}
		met++
		if !b.Serial {
			t.Errorf("behaviour %s expects a node port that it gave back to be silent, and others run beside it", b.ID)
		}
	}
	if met == 0 {
		t.Error("no behaviour gives a node port back: nothing was tested")
	}
}

// What nobody is to answer was answered before, in each state anew: or a dataplane would pass that
// has not heard of the Service yet.
func TestSilenceAfterAnswers(t *testing.T) {
	for _, b := range []kit.Behaviour{vipUnusableUnanswered(), externalIPUnusableUnanswered(), localNoneAnywhereUnanswered()} {
		last, silent := map[string]kit.Round{}, 0
		for _, r := range plan(t, b, corev1.IPv4Protocol, kit.Enough).Rounds {
			if before := last[r.Way]; !r.Answers && !before.Answers && before.State != r.State {
				t.Errorf("behaviour %s: %s is to be silent, and was not answered since the state before", b.ID, r.Way)
			}
			if last[r.Way] = r; !r.Answers {
				silent++
			}
		}
		if silent == 0 {
			t.Errorf("behaviour %s: it expects no silence: nothing was tested", b.ID)
		}
	}
}

// A clock that a timeout is held against starts when the dataplane has heard of the Service: before
// its first connection another Service, made later, was answered on each node.
func TestAffinityClockStartsLate(t *testing.T) {
	at := slices.IndexFunc(All(), func(b kit.Behaviour) bool { return b.ID == "affinity-lasts-until-timeout" })
	rounds := plan(t, All()[at], corev1.IPv4Protocol, kit.Enough).Rounds
	few := slices.IndexFunc(rounds, func(r kit.Round) bool { return r.Attempts == 1 })
	if few != kit.Enough {
		t.Errorf("of %d rounds %d are before the first connection that counts, want one on each of %d nodes", len(rounds), few, kit.Enough)
	}
}

// A cluster of many nodes is asked no more than a small one, but by what says something of every node.
func TestAskedOfManyNodes(t *testing.T) {
	everyNode := []string{
		"nodeport-on-every-node", "clusterip-source-kept-across-nodes",
		"api-outage-then-followed", "restart-under-load", "affinity-survives-restart", "lb-without-agents", // of the agents of all nodes
		"selected-pods", // whose endpoints are all pods of the suite
	}
	for _, b := range All() {
		attempts := func(nodes int) (n int) {
			for _, r := range plan(t, b, corev1.IPv4Protocol, nodes).Rounds {
				n += r.Attempts
			}
			return n
		}
		few, many := attempts(kit.Enough), attempts(5*kit.Enough)
		if grows := many > few+few/2; grows != slices.Contains(everyNode, b.ID) {
			t.Errorf("behaviour %s: %d attempts with %d nodes, and %d with %d", b.ID, few, kit.Enough, many, 5*kit.Enough)
		}
	}
}
