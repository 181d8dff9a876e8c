//go:build !mutations

package main

import (
	"flag"

	"github.com/plumbline/plumbline/dataplane/healthz"
	"github.com/plumbline/plumbline/dataplane/loop"
)

// mutation is what a build with the tag mutations can break on purpose, so that
// the conformance suite shows that it notices. This build breaks nothing.
type mutation struct{}

func (mutation) register(*flag.FlagSet) {}

func (mutation) backend(b backend) backend { return b }

func (mutation) agent(a *agent) *agent { return a }

func (mutation) checks(c *healthz.Services) loop.HealthChecks { return c }
