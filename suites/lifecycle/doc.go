// Package lifecycle compares the life of pods on a lab with a recording of a real
// kubelet's: the script of lives.go is played on any stage, all that can be seen
// of it is written down in order, and a difference in order fails the test.
//
//	stage.Open   a cluster without a dataplane; play   all lives side by side    (play.go)
//	watch        each change of a Pod or an EndpointSlice -> events              (watch.go, facets.go)
//	programs     the workload's own word of what signals it got                  (program.go)
//	Compare      what all recordings agree on must hold                          (order.go)
//
// Against a lab (root, `make build`, no Docker; a minute):
//
//	go test ./suites/lifecycle
//
// More plays for the recording, on kind (a host prepared by `make host`). What is
// recorded already stays; without the file it begins anew, which a change of the
// script asks for:
//
//	go test ./suites/lifecycle -run Kubelet -cluster=kind -name=plumbline-life -record=3
//
// The same without --record compares a kind cluster with the recording. --lives
// plays some of them, --out writes down what happened.
//
// # What is recorded
//
// Of a Pod, each change of its conditions with their reasons, phase, deletion,
// address, container state, ready, started, restarts and last state; of its
// endpoint, the conditions in the slice; of the program, its log (listening,
// sigterm, closing, exit). All are stamped with record.Now. Messages, times in
// objects and Events are not looked at.
//
// # The rule
//
// A recording is the script played several times: a real kubelet has several clocks
// (probes, the look at containers once a second, the writer of statuses) and does
// not do everything in one order. An event is known by pod, facet, value, the
// container's restarts, and how often it was seen before.
//
// Content: of each facet of each pod, every step from one value to the next, the
// first and the last included, is one that was recorded in this life. (Not whole
// sequences: a state that is short may or may not be seen.) For what depends on
// probes (conditions, container.ready, endpoint) it is one recorded in any life.
// What was always recorded has to be there.
//
// Order: between two changes of the API counts the resource version, which is one
// counter for all kinds. They are before, after, or together (one write: nobody can
// see one without the other). Between the program's word and a change of the API
// counts the stamp, and within stampDoubt of each other they have no order. If all
// recordings have a pair in the same order, the lab must have it too. It is not
// judged if recordings of this life differ, if one lacks an event of it, or if
// recordings of another life have the pair in different orders. Judged are
//
//   - all pairs of events of one pod's object, and of one program;
//   - across objects (a pod and its endpoint, its program, another pod), pairs of
//     cause and effect (causes in order.go), and pairs with a distance of at least
//     apart in all recordings: closer ones are races between components.
//
// Times are printed side by side (go test -v) and not judged.
//
// # Limits
//
// Only what a client of the API and the program itself can see. One container per
// pod. A life in which the lab is slower than a real kubelet by more than the
// distance between two events may show another order: the lives are made so that
// such distances are seconds.
//
// # Concurrency
//
// A goroutine per life, two watches, and one per container whose log is followed;
// play waits for all of them.
package lifecycle
