package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// successor takes away what other backends of this project left on the node, when its own
// backend's rules are in: no Service is without any for a moment.
//
// A backend that translates by conntrack may be there beside another for a while: of the nat
// chains of a hook conntrack asks one after the other, and none after the first that
// translates. One that takes connections in would have them translated on their way to it:
// it lets new ones wait until the others' rules are gone (backend.Options.Others).
type successor struct {
	own    backend.Backend
	others map[string]backend.Backend
	netns  int
	tell   func(reason, text string) // of what cannot be taken away
	log    *slog.Logger

	alone  bool   // nothing of the others is left
	forgot bool   // nor of their flows
	told   string // what could not be taken away
}

// find looks for what the others left, and returns what takes it away; nil: there is nothing
// any more. It is asked with complete changes alone: with the first, and where something
// could not be taken away with those that come when something was lost, or once in an hour.
func (s *successor) find(ctx context.Context, p *plan.Plan) func() error {
	if s.alone {
		return nil
	}
	left := map[string][]string{}
	for name, b := range s.others {
		what, err := b.Left()
		if err != nil { // most likely another's, such as a table of iptables-legacy without the right to read it
			s.log.Warn("it cannot be told whether another backend left something on this node", "backend", name, "err", err)
		}
		if len(what) > 0 {
			left[name] = what
		}
	}
	if s.alone = len(left) == 0; s.alone {
		return nil
	}
	return func() error {
		var failed []error
		for _, name := range slices.Sorted(maps.Keys(left)) {
			s.log.Info("taking away what another backend left on this node", "backend", name, "left", strings.Join(left[name], ", "))
			failed = append(failed, s.takeAway(ctx, name, p))
		}
		s.complain(ctx, errors.Join(failed...))
		return nil // Services are served by the own rules all the same
	}
}

// complain tells of a failure once for as long as it stays the same.
func (s *successor) complain(ctx context.Context, err error) {
	s.alone = err == nil
	if err == nil || err.Error() == s.told || ctx.Err() != nil {
		return
	}
	s.told = err.Error()
	s.log.Error("what another backend left on this node cannot be taken away", "err", err)
	s.tell("LeftByOtherBackend", err.Error())
}

func (s *successor) takeAway(ctx context.Context, name string, p *plan.Plan) error {
	b := s.others[name]
	if err := b.Clean(); err != nil {
		return fmt.Errorf("take away what backend %s left: %w", name, err)
	}
	if b.Flows != s.own.Flows {
		return s.forget(ctx, p)
	}
	return nil
}

func (s *successor) forget(ctx context.Context, p *plan.Plan) error {
	if err := conntrack.Forget(ctx, s.netns, p, s.own.Flows); err != nil {
		return fmt.Errorf("take the place of another backend: %w", err)
	}
	s.forgot = true
	return nil
}

// inTurn is a target whose rules come in before those of the others go.
type inTurn struct {
	loop.Target
	next *successor
}

// Apply looks for the others' after each complete change, where the target has not. What they
// translated may have outlived their rules: one that translates finds that by itself (Flows).
func (t inTurn) Apply(ctx context.Context, old, new *plan.Plan) error {
	err := t.Target.Apply(ctx, old, new)
	var refused *plan.Refused
	if old != nil || err != nil && !errors.As(err, &refused) {
		return err
	}
	if take := t.next.find(ctx, new); take != nil {
		err = errors.Join(err, take())
	}
	if !t.next.own.Flows && !t.next.forgot {
		err = errors.Join(err, t.next.forget(ctx, new))
	}
	return err
}
