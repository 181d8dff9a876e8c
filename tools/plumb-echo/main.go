// plumb-echo is the workload of Plumbline's tests: it answers GET / with the
// name of its pod. Its identity comes from POD_NAME, POD_UID and NODE_NAME.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/plumbline/plumbline/tools/internal/echo"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return echo.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
