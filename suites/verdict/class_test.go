package verdict

import (
	"fmt"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

const (
	ms = int64(time.Millisecond)
	s1 = int64(time.Second)
)

// good is a complete answer after 2 ms, started on time at t = 100 s.
func good(edit func(*record.Attempt)) record.Attempt {
	a := record.Attempt{
		Stream: record.Main, Intended: 100 * s1, Start: 100 * s1, Connected: 100*s1 + ms, Wrote: 100*s1 + ms,
		FirstByte: 100*s1 + 2*ms, End: 100*s1 + 2*ms, Phase: record.PhaseDone, Status: 200, BodyOK: true,
		Pod: "echo-a", Node: "n1",
	}
	if edit != nil {
		edit(&a)
	}
	return a
}

// failed ended in a phase, ms milliseconds after its start.
func failed(p record.Phase, failure string, after int64) record.Attempt {
	return good(func(a *record.Attempt) {
		a.Phase, a.Failure, a.BodyOK, a.Status, a.Pod, a.Node = p, failure, false, 0, "", ""
		a.End = a.Start + after*ms
		if p == record.PhaseDial {
			a.Connected, a.Wrote, a.FirstByte = 0, 0, 0
		}
	})
}

func status(code int, edit func(*record.Attempt)) record.Attempt {
	return good(func(a *record.Attempt) {
		a.Status = code
		if edit != nil {
			edit(a)
		}
	})
}

// took is a success whose handshake and end came that many ms after the start.
func took(connect, end int64) record.Attempt {
	return good(func(a *record.Attempt) {
		a.Connected, a.Wrote = a.Start+connect*ms, a.Start+connect*ms
		a.FirstByte, a.End = a.Start+end*ms, a.Start+end*ms
	})
}

// classCase is one attempt and what it is, for a client that waits 2.5 s
// unless it says otherwise.
type classCase struct {
	name    string
	a       record.Attempt
	timeout time.Duration
	want    Class
}

func classCases() []classCase {
	half := 500 * time.Millisecond
	var cases []classCase
	add := func(name string, want Class, a record.Attempt) {
		cases = append(cases, classCase{name, a, 2500 * time.Millisecond, want})
	}
	at := func(name string, timeout time.Duration, want Class, a record.Attempt) {
		cases = append(cases, classCase{name, a, timeout, want})
	}
	add("good", OK, good(nil))
	add("from a terminating pod", OKFromTerminating, good(func(a *record.Attempt) { a.Terminating = true }))
	add("late start is not slowness", OK, good(func(a *record.Attempt) { a.Intended -= 5 * s1 }))
	add("resent SYN", OKSlowConnect, took(1001, 1003))
	add("resent SYN, terminating pod", OKSlowConnect, good(func(a *record.Attempt) {
		a.Connected, a.End, a.Terminating = a.Start+1001*ms, a.Start+1003*ms, true
	}))
	add("just not slow", OK, took(1, 199))
	add("slow answer", OKSlow, took(1, 200))
	add("resent segment that nobody waited for", OK, good(func(a *record.Attempt) { a.Retrans = 1 }))
	add("resent segment", OKRetrans, good(func(a *record.Attempt) { a.Retrans, a.End = 1, a.Start+204*ms }))
	at("resent SYN, hasty client", half, DialTimeout, took(1001, 1003))
	at("slow answer, hasty client", half, RespTimeout, took(1, 501))
	at("exactly in time", half, OKSlow, took(1, 500))
	at("patient client", 10*time.Second, OKSlowConnect, took(7003, 7005))

	for f, want := range map[string]Class{
		"ECONNREFUSED": DialRefused, "ECONNRESET": DialReset, "ETIMEDOUT": DialTimeout,
		"EHOSTUNREACH": DialICMP, "ENETUNREACH": DialICMP, "EACCES": DialICMP,
		"EADDRNOTAVAIL": DialLocal, "EMFILE": DialLocal, "EPERM": DialLocal,
		"EWEIRD": Unclassified, record.FailOther: Unclassified, record.FailEOF: Unclassified,
	} {
		add("dial "+f, want, failed(record.PhaseDial, f, 1))
	}
	add("dial cut at the deadline", DialTimeout, failed(record.PhaseDial, record.FailTimeout, 10000))
	add("dial given up before the client would", DialTimeout, failed(record.PhaseDial, record.FailTimeout, 1000))
	add("refused after the client left", DialTimeout, failed(record.PhaseDial, "ECONNREFUSED", 3000))
	add("no port, noticed late", DialLocal, failed(record.PhaseDial, "EADDRNOTAVAIL", 3000))
	add("not sent", NotSent, failed(record.PhaseDial, record.FailNotSent, 0))
	add("write EPIPE", WriteEPIPE, failed(record.PhaseWrite, "EPIPE", 2))
	add("write reset", ResetBeforeResp, failed(record.PhaseWrite, "ECONNRESET", 2))
	add("read EOF", EOFBeforeResp, failed(record.PhaseRead, record.FailEOF, 2))
	add("read reset", ResetBeforeResp, failed(record.PhaseRead, "ECONNRESET", 2))
	add("read cut at the deadline", RespTimeout, failed(record.PhaseRead, record.FailTimeout, 10000))
	add("read given up before the client would", RespTimeout, failed(record.PhaseRead, record.FailTimeout, 1000))
	add("EOF after the client left", RespTimeout, failed(record.PhaseRead, record.FailEOF, 5000))
	at("EOF the patient client saw", 10*time.Second, EOFBeforeResp, failed(record.PhaseRead, record.FailEOF, 5000))
	add("read errno never seen", Unclassified, failed(record.PhaseRead, "EWEIRD", 2))
	add("body EOF", ShortBody, failed(record.PhaseBody, record.FailEOF, 2))
	add("body reset", ResetMidBody, failed(record.PhaseBody, "ECONNRESET", 2))
	add("body not HTTP", BadBody, failed(record.PhaseBody, record.FailProto, 2))
	add("body cut at the deadline", RespTimeout, failed(record.PhaseBody, record.FailTimeout, 10000))
	add("body EOF after a good status", ShortBody, func() record.Attempt {
		a := failed(record.PhaseBody, record.FailEOF, 2)
		a.Status = 200
		return a
	}())

	add("proxy's 503", HTTP5xxLB, status(503, func(a *record.Attempt) { a.Pod, a.BodyOK = "", false }))
	add("pod's 503", HTTP5xxApp, status(503, nil))
	add("500", HTTP5xxApp, status(500, func(a *record.Attempt) { a.Pod, a.BodyOK = "", false }))
	add("404", HTTP4xx, status(404, func(a *record.Attempt) { a.BodyOK = false }))
	add("redirect", BadBody, status(302, nil))
	add("other answer", BadBody, status(200, func(a *record.Attempt) { a.BodyOK = false }))
	add("contradiction", Unclassified, good(func(a *record.Attempt) { a.Phase = record.PhaseBody }))
	return cases
}

func (c classCase) check(classify classifier) error {
	if got := classify(c.a, c.timeout); got != c.want {
		return fmt.Errorf("%s: class %s, want %s", c.name, got, c.want)
	}
	return nil
}

func TestClassify(t *testing.T) {
	for _, c := range classCases() {
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(Classify); err != nil {
				t.Error(err)
			}
		})
	}
}

func allClasses() []Class {
	return []Class{
		OK, OKFromTerminating, OKSlowConnect, OKRetrans, OKSlow,
		DialRefused, DialReset, DialTimeout, DialICMP, EOFBeforeResp, ResetBeforeResp, ResetMidBody, ShortBody,
		RespTimeout, WriteEPIPE, HTTP4xx, HTTP5xxApp, HTTP5xxLB, WrongBackend, BadBody, Unclassified,
		NotSent, DialLocal,
	}
}

// TestClassKinds: every class is exactly one of success, loss and harness.
func TestClassKinds(t *testing.T) {
	for i, c := range allClasses() {
		wantSuccess, wantSlow, wantHarness := i < 5, i >= 2 && i < 5, i >= len(allClasses())-2
		if c.Success() != wantSuccess || c.Slow() != wantSlow || c.Harness() != wantHarness || c.Lost() != (!wantSuccess && !wantHarness) {
			t.Errorf("%s: success %v slow %v harness %v lost %v", c, c.Success(), c.Slow(), c.Harness(), c.Lost())
		}
	}
}
