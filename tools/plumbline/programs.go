package main

import (
	"context"
	"io"

	"github.com/plumbline/plumbline/tools/internal/echo"
	"github.com/plumbline/plumbline/tools/internal/lb"
	"github.com/plumbline/plumbline/tools/internal/probe"
	"github.com/plumbline/plumbline/tools/internal/proxy"
)

// programs are the project's others, which this one is when it is called so: where they
// are not beside it, it takes their place (docs/adr/002-one-program-or-several.md).
var programs = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{ // const
	"plumb-echo": echo.Main, "plumb-lb": lb.Main, "plumb-probe": probe.Main,
	"plumb-proxy": func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return proxy.Main(ctx, args, stdout, stderr, nil)
	},
}
