package stage

import (
	"context"
	"errors"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/disrupt"
)

// reach is that of a stage whose nodes are ours to the agents of the dataplane that was
// installed last.
type reach struct {
	stage  *base
	agents interface {
		Kill(ctx context.Context, node string, d cluster.Dataplane) error
		Halt(ctx context.Context) error
		Resume(ctx context.Context, d cluster.Dataplane) error
		Run(ctx context.Context, node string, d cluster.Dataplane, args ...string) error
	}
}

var _ disrupt.Agents = reach{}

// KillAgent ends a node's agent with SIGKILL; something starts it again at once.
func (r reach) KillAgent(ctx context.Context, node string) error {
	return r.agents.Kill(ctx, node, r.stage.installed)
}

// StopAgents ends all agents and leaves what they have put into the kernel.
func (r reach) StopAgents(ctx context.Context) error { return r.agents.Halt(ctx) }

// StartAgents starts them again and returns when they forward.
func (r reach) StartAgents(ctx context.Context) error {
	return errors.Join(r.agents.Resume(ctx, r.stage.installed), r.stage.installer.AwaitForwarding(ctx, r.stage.installed))
}

// RunProgram runs the agents' program on a node once.
func (r reach) RunProgram(ctx context.Context, node string, args ...string) error {
	return r.agents.Run(ctx, node, r.stage.installed, args...)
}
