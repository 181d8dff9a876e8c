package instance

import (
	"context"
	"sync"
	"time"
)

// How long after its end a process is started anew: Docker's first wait, and a
// longer one for a process that ran for no longer than that.
const (
	restartSoon  = 100 * time.Millisecond
	restartLater = time.Second
)

// Watch calls f for each event, in order, and starts anew what ends, until ctx
// ends. What happened since Adopt and before Watch is told as well.
func (p *Processes) Watch(ctx context.Context, f func(Event)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer p.unwatch()
	for {
		events, orphans := p.news()
		for _, e := range events {
			f(e)
		}
		for _, pr := range orphans {
			wg.Go(func() { p.tend(ctx, pr) })
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
	}
}

// news takes what there is to tell, and whom to look after.
func (p *Processes) news() ([]Event, []*process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	events, orphans := p.events, p.orphan
	p.events, p.orphan = nil, nil
	return events, orphans
}

// tell is called with mu held.
func (p *Processes) tell(pr *process, kind Kind, at time.Time, detail string) {
	p.events = append(p.events, Event{Name: pr.spec.Name, Service: pr.spec.Service, Kind: kind, At: at, Detail: detail})
	p.wakeUp()
}

// watch is called with mu held.
func (p *Processes) watch(pr *process) {
	if !pr.watched {
		pr.watched = true
		p.orphan = append(p.orphan, pr)
		p.wakeUp()
	}
}

// unwatch leaves everything to the next Watch.
func (p *Processes) unwatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orphan = nil
	for _, pr := range p.all {
		if pr.watched {
			p.orphan = append(p.orphan, pr)
		}
	}
}

func (p *Processes) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// tend starts a process anew whenever it ends, until it is stopped or ctx ends.
func (p *Processes) tend(ctx context.Context, pr *process) {
	for {
		p.mu.Lock()
		r := pr.run
		p.mu.Unlock()
		if !r.await(ctx) {
			return
		}
		at := time.Now()
		p.over(pr, at)
		wait := restartSoon
		if at.Sub(r.since) < restartLater {
			wait = restartLater
		}
		for again := true; again; wait = restartLater {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			var stopped bool
			if stopped, again = p.relaunch(ctx, pr); stopped {
				return
			}
		}
	}
}

// relaunch starts a process that ended, unless it was stopped. What cannot be
// started is to be tried again.
func (p *Processes) relaunch(ctx context.Context, pr *process) (stopped, again bool) {
	pr.op.Lock()
	defer pr.op.Unlock()
	p.mu.Lock()
	stopped = pr.stopping
	p.mu.Unlock()
	if stopped {
		return true, false
	}
	// Workers end with their master, but not at once, and two that listen share
	// the connections.
	err := endAll(ctx, p.opts.StateDir, pr.spec.Name)
	if err == nil {
		err = p.launch(pr)
	}
	if err != nil && ctx.Err() == nil {
		p.opts.Log.Error("load balancer that ended is not back", "instance", pr.spec.Name, "retry in", restartLater, "err", err)
	}
	return false, err != nil
}

// over notes the end of what runs, once.
func (p *Processes) over(pr *process, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pr.run == nil || pr.run.closed || pr.run.alive() {
		return
	}
	detail := pr.run.reap()
	if err := pr.run.close(); err != nil {
		p.opts.Log.Warn("close a process that ended", "instance", pr.spec.Name, "err", err)
	}
	p.tell(pr, Ended, at, detail)
}
