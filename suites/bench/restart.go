//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// quietRestart kills the process and starts it again, once, without load, as a cold start.
func (s *subject) quietRestart(ctx context.Context) error {
	if s.cfg.Restarts == 0 {
		return nil
	}
	s.out.Quiet = spread(nil, 1)
	if err := s.again(); err != nil {
		return err
	}
	took, err := s.follows(ctx, s.agent.Started())
	if errors.Is(err, errLimit) {
		return nil
	}
	if err != nil {
		return err
	}
	s.out.Quiet = spread([]time.Duration{took}, 1)
	s.out.QuietApply, err = s.firstApply(ctx, time.Now().Add(s.cfg.Limit))
	return err
}

// warmRestart kills the process and starts it again, under load, several times.
func (s *subject) warmRestart(ctx context.Context) error {
	var took []time.Duration
	share := s.cfg.Connections / max(s.cfg.Restarts, 1)
	begin := time.Now()
	for k := 0; k < s.cfg.Restarts && time.Since(begin) < s.cfg.Limit; k++ {
		d, got, err := s.restartUnderLoad(ctx, share)
		s.out.Load = s.out.Load.plus(got)
		if errors.Is(err, errLimit) {
			break
		}
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	s.out.Warm = spread(took, s.cfg.Restarts)
	if len(took) < s.cfg.Restarts || len(took) == 0 {
		return nil
	}
	var err error
	s.out.WarmApply, err = s.firstApply(ctx, time.Now().Add(s.cfg.Limit))
	return err
}

// restartUnderLoad restarts once at least a quarter of n connections were opened,
// and has more opened until n were and the new process follows.
func (s *subject) restartUnderLoad(ctx context.Context, n int) (time.Duration, Load, error) {
	l := s.w.load(ctx, s.n, n, s.cfg.Limit)
	l.reach(int64(n) / 4)
	d, err := s.restart(ctx, l)
	got, failed := l.wait(err != nil)
	if failed != nil {
		return d, got, fmt.Errorf("open connections: %w", failed)
	}
	return d, got, err
}

func (s *subject) restart(ctx context.Context, l *load) (time.Duration, error) {
	if err := s.again(); err != nil {
		return 0, err
	}
	defer l.taking()()
	return s.follows(ctx, s.agent.Started())
}

// again kills the process, changes something, and starts it anew.
func (s *subject) again() error {
	if err := s.agent.Kill(); err != nil {
		return err
	}
	if err := s.w.api.Apply(s.w.next(switched)); err != nil {
		return err
	}
	return s.start()
}
