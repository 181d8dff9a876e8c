package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/plumbline/plumbline/dataplane/kubeproxy"
)

// metricsHandler serves /metrics, and /proxyMode as kube-proxy does.
func metricsHandler(mode string, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", kubeproxy.Ours)
		fmt.Fprint(w, mode)
	})
	return mux
}

// The limits of a server: listings of many Services take their time, for WriteWithin.
const (
	readWithin  = 5 * time.Second
	WriteWithin = 60 * time.Second
	bindAgain   = time.Second
)

// server is what is served where.
type server struct {
	what          string // in the log
	network, addr string
	handler       http.Handler
	log           *slog.Logger
}

// run answers at an address until ctx ends. One that is taken is tried again
// and again: a predecessor may just be leaving it, and nothing else of the agent
// depends on it.
func (s server) run(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, s.network, s.addr)
	for said := false; errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL); said = true {
		if !said {
			s.log.Warn("not served: the address is taken or not there, trying again every second", "what", s.what, "addr", s.addr, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(bindAgain):
		}
		ln, err = lc.Listen(ctx, s.network, s.addr)
	}
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return nil
		case s.network == "unix": // forbidden in some surroundings, and nothing depends on it
			s.log.Warn("not served", "what", s.what, "addr", s.addr, "err", err)
			return nil
		}
		return fmt.Errorf("serve %s at %s: %w", s.what, s.addr, err)
	}
	srv := &http.Server{
		Handler: s.handler, ReadTimeout: readWithin, WriteTimeout: WriteWithin,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.network == "unix" {
		srv.ConnContext = knows
	}
	stop := context.AfterFunc(ctx, func() {
		_ = srv.Close() // the listener is closed either way
	})
	defer stop()
	s.log.Info("serving "+s.what, "addr", ln.Addr())
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s at %s: %w", s.what, s.addr, err)
	}
	return nil
}
