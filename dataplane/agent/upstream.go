package agent

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// upstream are metrics by kube-proxy's names, labels and buckets (pkg/proxy/metrics), those that
// mean the same here; docs/dataplanes.md has the table. Both families are one sync: what is
// upstream's by family has the same value for each.
type upstream struct {
	sync, full, partial *prometheus.HistogramVec
	programming         *prometheus.HistogramVec
	failures            *prometheus.CounterVec // nil: the backend has none of upstream's name
	healthz, livez      *prometheus.CounterVec
	now                 func() time.Time
}

// families are the values of the label ip_family.
var families = []string{"IPv4", "IPv6"} // const

func familyName(v6 bool) string { return families[map[bool]int{true: 1}[v6]] }

func newUpstream(to prometheus.Registerer, mode string, status func() loop.Status, flows func() conntrack.Stats) *upstream {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "kubeproxy_" + name, Help: help, Buckets: buckets}, []string{"ip_family"})
		to.MustRegister(h)
		return h
	}
	counter := func(label, name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubeproxy_" + name, Help: help}, []string{label})
		to.MustRegister(c)
		return c
	}
	latencies := prometheus.ExponentialBuckets(0.001, 2, 15)
	u := &upstream{
		sync:        histogram("sync_proxy_rules_duration_seconds", "Time of a sync.", latencies),
		full:        histogram("sync_full_proxy_rules_duration_seconds", "Time of a complete sync.", latencies),
		partial:     histogram("sync_partial_proxy_rules_duration_seconds", "Time of a sync of what has changed.", latencies),
		programming: histogram("network_programming_duration_seconds", "Time from what an EndpointSlice was written for (its annotation last-change-trigger-time) to its being in the kernel, by the clocks of two machines.", programmingBuckets()),
		healthz:     counter("code", "proxy_healthz_total", "Answers of /healthz."),
		livez:       counter("code", "proxy_livez_total", "Answers of /livez."),
		now:         time.Now,
	}
	switch mode {
	case "nftables":
		u.failures = counter("ip_family", "sync_proxy_rules_nftables_sync_failures_total", "Syncs that failed.")
	case "iptables":
		u.failures = counter("ip_family", "sync_proxy_rules_iptables_restore_failures_total", "Syncs that failed.")
	}
	byFamily := func(name, help string, value func(v6 bool) float64, counts bool) {
		for i, f := range families {
			labels := prometheus.Labels{"ip_family": f}
			get := func() float64 { return value(i == 1) }
			if counts {
				to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "kubeproxy_" + name, Help: help, ConstLabels: labels}, get))
			} else {
				to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kubeproxy_" + name, Help: help, ConstLabels: labels}, get))
			}
		}
	}
	byFamily("sync_proxy_rules_last_timestamp_seconds", "Time of the last successful sync.", func(bool) float64 { return seconds(status().Applied) }, false)
	byFamily("sync_proxy_rules_last_queued_timestamp_seconds", "Time of the last change that came in.", func(bool) float64 { return seconds(status().Queued) }, false)
	byFamily("conntrack_reconciler_deleted_entries_total", "Stale flows deleted from connection tracking.", func(v6 bool) float64 {
		s := flows()
		if v6 {
			return float64(s.IPv6)
		}
		return float64(s.Deleted - s.IPv6)
	}, true)
	for policy, of := range map[string]func(plan.NoLocal) [2]int{
		"internal": func(n plan.NoLocal) [2]int { return n.Internal }, "external": func(n plan.NoLocal) [2]int { return n.External },
	} {
		for i, f := range families {
			to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "kubeproxy_sync_proxy_rules_no_local_endpoints_total", Help: "Ports of Services with a Local traffic policy and no local endpoint, though there are some elsewhere.",
				ConstLabels: prometheus.Labels{"ip_family": f, "traffic_policy": policy},
			}, func() float64 { return float64(of(status().NoLocal)[i]) }))
		}
	}
	countChanges(to, "service", func(c loop.Changes) uint64 { return c.Services }, status)
	countChanges(to, "endpoint", func(c loop.Changes) uint64 { return c.Slices }, status)
	return u
}

func countChanges(to prometheus.Registerer, of string, number func(loop.Changes) uint64, status func() loop.Status) {
	name := "kubeproxy_sync_proxy_rules_" + of + "_changes_"
	to.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name + "total", Help: "Changes of " + of + "s seen."}, func() float64 { return float64(number(status().Seen)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name + "pending", Help: "Changes of " + of + "s not in the kernel yet."}, func() float64 {
			s := status()
			return float64(number(s.Seen) - number(s.Done))
		}))
}

// programmingBuckets are upstream's: fine below a minute, the bound of the SLO.
func programmingBuckets() (out []float64) {
	out = append(out, 0.25, 0.5)
	out = append(out, prometheus.LinearBuckets(1, 1, 59)...)
	out = append(out, prometheus.LinearBuckets(60, 5, 12)...)
	return append(out, prometheus.LinearBuckets(120, 30, 7)...)
}

func (u *upstream) observe(r loop.Round) {
	part := u.partial
	if r.Complete {
		part = u.full
	}
	for _, f := range families {
		u.sync.WithLabelValues(f).Observe(r.Took.Seconds())
		part.WithLabelValues(f).Observe(r.Took.Seconds())
		if r.Failed && u.failures != nil {
			u.failures.WithLabelValues(f).Inc()
		}
	}
	for _, t := range r.Triggers {
		u.programming.WithLabelValues(familyName(t.IPv6)).Observe(u.now().Sub(t.At).Seconds())
	}
}

// answered is for healthz.Proxy.
func (u *upstream) answered(path string, code int) {
	c := u.healthz
	if strings.HasSuffix(path, "livez") {
		c = u.livez
	}
	c.WithLabelValues(strconv.Itoa(code)).Inc()
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / 1e6
}
