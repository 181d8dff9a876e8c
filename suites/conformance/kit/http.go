package kit

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// ExpectHTTP asks a path and demands that the answer is right: wrong says in what
// it is not. Like Expect it is asked again only while the dataplane may be late, and
// what was right late must stay so. It returns the last answer.
func (s *Spec) ExpectHTTP(c Client, at netip.AddrPort, path string, wrong func(*remote.Response) string) *remote.Response {
	r, late := s.awaitHTTP(s.limit(), c, at, path, wrong)
	for n := 0; late > 0 && n < confirmations; n++ {
		again, why := s.askHTTP(c, at, path, wrong)
		if why != "" {
			s.failHTTP(c, at, path, again, wavered(late, why))
		}
		r = again
	}
	return r
}

// awaitHTTP asks until the answer is right, for so long after the last change. It says
// how long that took, 0: it was right at the first try.
func (s *Spec) awaitHTTP(d time.Duration, c Client, at netip.AddrPort, path string, wrong func(*remote.Response) string) (r *remote.Response, late time.Duration) {
	for first := true; ; first = false {
		took := time.Since(s.at)
		r, why := s.askHTTP(c, at, path, wrong)
		if why == "" {
			if s.delay = max(s.delay, took); first {
				took = 0
			}
			return r, took
		}
		if time.Since(s.at) > d {
			s.failHTTP(c, at, path, r, why)
		}
		s.Pause(20 * time.Millisecond)
	}
}

func wavered(late time.Duration, why string) string {
	return fmt.Sprintf("right after %s, then not: %s", late.Round(time.Millisecond), why)
}

// StillHTTP demands the right answer at once: nothing has changed that might make it
// late.
func (s *Spec) StillHTTP(c Client, at netip.AddrPort, path string, wrong func(*remote.Response) string) {
	if r, why := s.askHTTP(c, at, path, wrong); why != "" {
		s.failHTTP(c, at, path, r, why)
	}
}

// Heard is how long something must go on as it is after a change that is not to matter:
// what does follow it does so in a fraction of that.
const Heard = 2 * time.Second

// KeepsHTTP demands the right answer for so long, again and again.
func (s *Spec) KeepsHTTP(d time.Duration, c Client, at netip.AddrPort, path string, wrong func(*remote.Response) string) {
	for end := time.Now().Add(d); time.Now().Before(end); s.Pause(20 * time.Millisecond) {
		s.StillHTTP(c, at, path, wrong)
	}
}

func (s *Spec) askHTTP(c Client, at netip.AddrPort, path string, wrong func(*remote.Response) string) (*remote.Response, string) {
	s.lastCells = nil
	if s.planned != nil {
		return &remote.Response{Class: remote.OK, Status: 200}, ""
	}
	r, err := c.probe.Get(s.ctx, remote.Get{Target: at, Path: path})
	s.must(err, "ask http://%s%s", at, path)
	s.attempts++
	why := wrong(r)
	s.tried(trial{client: c, to: TCP(at), path: path, n: 1, late: r.Latency - remote.DefaultTimeout, said: cmp.Or(why, fmt.Sprintf("status %d", r.Status))})
	s.round(dial{way: Way{c, TCP(at)}, path: path, n: 1}, fmt.Sprintf("asked http://%s%s", at, path), cmp.Or(why, fmt.Sprintf("as wanted: status %d", r.Status)), why != "")
	if r.Class == remote.LocalErr {
		s.Inconclusive("%s asks http://%s%s: the client itself failed: %s", c.at(), at, path, r.Err)
	}
	return r, why
}

func (s *Spec) failHTTP(c Client, at netip.AddrPort, path string, r *remote.Response, why string) {
	s.keep("answer.txt", fmt.Sprintf("http://%s%s\n%s %d\n%v\n\n%s\n", at, path, r.Class, r.Status, r.Header, r.Body))
	s.Fail("%s asks http://%s%s: %s", c.at(), at, path, why)
}

// Status wants an HTTP status.
func Status(code int) func(*remote.Response) string {
	return func(r *remote.Response) string {
		if r.Class != remote.OK || r.Status != code {
			return fmt.Sprintf("want status %d, got %s, status %d: %s", code, r.Class, r.Status, r.Body)
		}
		return ""
	}
}
