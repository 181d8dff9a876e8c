package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// successor takes away what other backends of this project left on the node, and kube-proxy if
// that is asked for, when its own backend's rules are in: no Service is without any for a
// moment.
//
// A backend that translates by conntrack may be there beside another for a while: of the nat
// chains of a hook conntrack asks one after the other, and none after the first that
// translates. One that takes connections in would have them translated on their way to it:
// it lets new ones wait until the others' rules are gone (backend.Options.Others).
//
// Programs at sockets see who connects and not what he sends then (plan.Options.Sockets). Who connected before
// them may send his first packet after them: that is translated by the others' rules, or by none. So these stay
// for a while.
//
// What cannot be told or taken away is tried again, at first after a second, then whenever it
// has failed for twice as long. What is to stay, or stays whoever tries (backend.Stays), is told
// once, and looked at again with each complete change. Services are served by the own rules all
// the same.
type successor struct {
	own    backend.Backend
	others map[string]backend.Backend
	again  func()                                  // asks for a complete change
	tell   func(reason, text string)               // of what cannot be taken away
	forget func(context.Context, *plan.Plan) error // ends what conntrack holds of the others
	log    *slog.Logger
	beside time.Duration // the others' rules stay so long beside the own

	looked  bool              // in this change
	alone   bool              // nothing of the others is left
	due     bool              // the others' flows are to be forgotten
	failed  error             // of this change
	failing time.Time         // since when; zero: it is not
	told    string            // what could not be taken away
	named   map[string]bool   // what was told of those whose rules stay
	stayed  map[string]string // what stayed of each when it was last tried
	retry   *time.Timer
	since   time.Time // the own are in and the others' are to go
	waits   bool      // for that
}

// besideSockets is for who has connected, to send his first packet: a second, if he is busy.
const besideSockets = time.Second

func newSuccessor(cfg *Config, tell func(reason, text string)) *successor {
	s := &successor{
		own: cfg.Backend, others: cfg.Others, tell: tell, log: cfg.Logger, named: map[string]bool{}, stayed: map[string]string{},
		due: cfg.Backend.Keeps != backend.Conntrack, // they may have outlived their rules; who translates by it finds that by itself (Flows)
		forget: func(ctx context.Context, p *plan.Plan) error {
			return conntrack.Forget(ctx, cfg.NetNS, p, cfg.Backend.Keeps == backend.Conntrack)
		},
	}
	if cfg.Backend.Sockets && cfg.Own.Cgroup != "" {
		s.beside = besideSockets
	}
	return s
}

// find looks for what the others left, and returns what takes it away; nil: there is nothing
// any more. It is asked with complete changes alone.
func (s *successor) find() (take func()) {
	s.looked = true
	if s.alone {
		return nil
	}
	left, keeps := map[string]string{}, false
	for _, name := range slices.Sorted(maps.Keys(s.others)) {
		found, err := s.others[name].Left()
		what, mayGo := strings.Join(found, ", "), s.others[name].Clean != nil
		keeps = keeps || !mayGo && (what != "" || err != nil)
		switch { // err is such as a table of iptables-legacy without the right to read it
		case err != nil && mayGo:
			s.fail(fmt.Errorf("look for what %s left: %w", name, err))
		case err != nil:
			s.name(name, fmt.Sprintf("whether %s is on this node too cannot be told: %v", name, err))
		}
		switch {
		case what == "":
			delete(s.stayed, name)
		case mayGo:
			left[name] = what
		default:
			s.name(name, fmt.Sprintf("%s is on this node too, with %s, and is not to be taken away; give the node to one of the two (--take-over)", name, what))
		}
	}
	if s.alone = !keeps && len(left) == 0 && s.failed == nil; len(left) == 0 {
		return nil
	}
	return func() {
		for _, name := range slices.Sorted(maps.Keys(left)) {
			s.take(name, left[name])
		}
		s.alone = !keeps && len(s.stayed) == 0 && s.failed == nil
	}
}

// take takes away what one of the others left. What has stayed once is tried in silence.
func (s *successor) take(name, left string) {
	other, news := s.others[name], s.stayed[name] != left
	if news {
		s.log.Info("taking away what another proxy left on this node", "proxy", name, "left", left)
	}
	err := other.Clean()
	stays := new(backend.Stays)
	switch {
	case errors.As(err, &stays):
		s.name(name, fmt.Sprintf("of what %s left on this node is not taken away: %s", name, stays))
		rest, _ := other.Left() // an error is told by the next look
		s.stayed[name] = strings.Join(rest, ", ")
	case err != nil:
		s.fail(fmt.Errorf("take away what %s left: %w", name, err))
	default:
		delete(s.stayed, name)
		news = true
	}
	s.due = s.due || news && other.Keeps != s.own.Keeps
}

// name tells once of what stays.
func (s *successor) name(name, text string) {
	if s.named[text] {
		return
	}
	s.named[text] = true
	s.log.Warn("another proxy's rules stay on this node", "proxy", name, "what", text)
	s.tell(reasonAnother, text)
}

// reasonAnother is that of Events about what another proxy left.
const reasonAnother = "LeftByAnotherProxy"

func (s *successor) fail(err error) { s.failed = errors.Join(s.failed, err) }

// finish ends a complete change that is in.
func (s *successor) finish(ctx context.Context, p *plan.Plan) {
	s.waits = false
	if !s.looked {
		if take := s.find(); take != nil && s.stoodBeside() {
			take()
		}
	}
	if s.due && !s.waits {
		if err := s.forget(ctx, p); err != nil {
			s.fail(fmt.Errorf("take the place of another proxy: %w", err))
		} else {
			s.due = false
		}
	}
	if ctx.Err() == nil {
		s.complain()
	}
}

// stoodBeside tells whether the others' rules have been there long enough beside the own.
func (s *successor) stoodBeside() bool {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	s.waits = time.Since(s.since) < s.beside
	return !s.waits
}

// firstRetry is the pause before what failed is tried again for the first time.
const firstRetry = time.Second

// complain tells of a failure once for as long as it stays the same, and asks for another
// change, as who waits does.
func (s *successor) complain() {
	s.stop()
	if s.failed == nil {
		s.failing, s.told = time.Time{}, ""
		if s.waits {
			s.retry = time.AfterFunc(s.beside-time.Since(s.since), s.again)
		}
		return
	}
	if s.failing.IsZero() {
		s.failing = time.Now()
	}
	s.retry = time.AfterFunc(max(firstRetry, time.Since(s.failing)), s.again)
	if text := s.failed.Error(); text != s.told {
		s.told = text
		s.log.Error("what another proxy left on this node cannot be taken away, will retry", "err", s.failed)
		s.tell(reasonAnother, text)
	}
}

func (s *successor) stop() {
	if s.retry != nil {
		s.retry.Stop()
	}
}

// inTurn is a target whose rules come in before those of the others go.
type inTurn struct {
	loop.Target
	next *successor
}

// Apply looks for the others' after each complete change, where the target has not.
func (t inTurn) Apply(ctx context.Context, old, new *plan.Plan) error {
	t.next.looked, t.next.failed = false, nil
	err := t.Target.Apply(ctx, old, new)
	var refused *plan.Refused
	if old == nil && (err == nil || errors.As(err, &refused)) {
		t.next.finish(ctx, new)
	}
	return err
}
