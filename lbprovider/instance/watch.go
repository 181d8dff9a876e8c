package instance

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

func kindOf(a events.Action) Kind {
	switch a {
	case events.ActionStart:
		return Started
	case events.ActionDie:
		return Ended
	default:
		return Removed
	}
}

// Watch calls f for each event, in order, until ctx ends. After an
// interruption (dockerd restarted) it goes on where it stopped.
func (d *Docker) Watch(ctx context.Context, f func(Event)) {
	since := time.Now()
	for ctx.Err() == nil {
		args := d.filter()
		for _, e := range []events.Action{events.ActionStart, events.ActionDie, events.ActionDestroy} {
			args.Add("event", string(e))
		}
		args.Add("type", string(events.ContainerEventType))
		since = d.follow(ctx, args, since, f)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (d *Docker) follow(ctx context.Context, args filters.Args, since time.Time, f func(Event)) time.Time {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := strconv.FormatInt(since.Unix(), 10) + "." + fmt.Sprintf("%09d", since.Nanosecond())
	msgs, errs := d.cli.Events(ctx, events.ListOptions{Since: from, Filters: args})
	for {
		select {
		case m := <-msgs:
			since = time.Unix(0, m.TimeNano+1)
			f(Event{
				Name:    m.Actor.Attributes["name"],
				Service: m.Actor.Attributes[labelService],
				Kind:    kindOf(m.Action),
				At:      time.Unix(0, m.TimeNano),
				Detail:  exitDetail(m),
			})
		case <-errs:
			return since
		}
	}
}

func exitDetail(m events.Message) string {
	if c := m.Actor.Attributes["exitCode"]; c != "" {
		return "exit code " + c
	}
	return ""
}
