package agent

import (
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/loop"
)

// metrics are the agent's, in a registry of their own.
type metrics struct {
	registry *prometheus.Registry
	took     *prometheus.HistogramVec
	first    prometheus.Gauge
	latency  prometheus.Histogram
	failures prometheus.Counter
	lost     prometheus.Counter
	synced   atomic.Bool // completely, once
	upstream *upstream
}

// newMetrics asks for the rest when they are read.
func newMetrics(mode string, status func() loop.Status, flows func() conntrack.Stats, dataplane backend.Running) *metrics {
	// From half a millisecond to a minute: one element, and everything at the start.
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 18)
	m := &metrics{
		registry: prometheus.NewRegistry(),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "plumbline_sync_duration_seconds", Buckets: buckets,
			Help: "Time the backend took to bring the kernel up to date; complete: read back and compared, not a difference.",
		}, []string{"complete"}),
		first: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plumbline_first_sync_duration_seconds", Help: "What the first complete sync took that succeeded; 0 before it has.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "plumbline_programming_latency_seconds", Buckets: buckets,
			Help: "Time from a change coming in from the API to its being in the kernel, of the oldest change in each sync.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plumbline_sync_failures_total", Help: "Syncs that failed; each is tried again.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plumbline_state_lost_total", Help: "Times somebody else changed what this agent keeps in the kernel.",
		}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	m.registry.MustRegister(m.took, m.first, m.latency, m.failures, m.lost,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("plumbline_services", "Services in the kernel.", func() float64 { return float64(status().Services) }),
		gauge("plumbline_refused_services", "Services the kernel did not take.", func() float64 { return float64(status().Refused) }),
		gauge("plumbline_last_sync_timestamp_seconds", "Time of the last successful sync; 0 before the first.", func() float64 { return seconds(status().Applied) }),
		counter("plumbline_conntrack_deleted_total", "Stale flows deleted from connection tracking.", func() uint64 { return flows().Deleted }),
		counter("plumbline_conntrack_resets_total", "TCP connections among them that were reset.", func() uint64 { return flows().Resets }),
		counter("plumbline_conntrack_failures_total", "Rounds of deleting them that failed; each is tried again.", func() uint64 { return flows().Failures }))
	for _, c := range dataplane.Counts {
		m.registry.MustRegister(gauge(c.Name, c.Help, c.Value))
	}
	if dataplane.Series.Read != nil {
		m.registry.MustRegister(newSeries(dataplane.Series))
	}
	m.upstream = newUpstream(m.registry, mode, status, flows)
	return m
}

// series are a backend's own, which it knows when it is asked.
type series struct {
	read func(emit func(metric string, value float64, labels ...string)) error
	all  map[string]described
}

type described struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func newSeries(of backend.Series) series {
	s := series{of.Read, map[string]described{}}
	for _, m := range of.Metrics {
		kind := prometheus.GaugeValue
		if m.Total {
			kind = prometheus.CounterValue
		}
		s.all[m.Name] = described{prometheus.NewDesc(m.Name, m.Help, m.Labels, nil), kind}
	}
	return s
}

func (s series) Describe(out chan<- *prometheus.Desc) {
	for _, d := range s.all {
		out <- d.Desc
	}
}

func (s series) Collect(out chan<- prometheus.Metric) {
	err := s.read(func(metric string, value float64, labels ...string) {
		d := s.all[metric]
		out <- prometheus.MustNewConstMetric(d.Desc, d.kind, value, labels...)
	})
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
}

// observe is for loop.Config. A failed round has programmed nothing: what waited
// goes on waiting, and is counted when it is in.
func (m *metrics) observe(r loop.Round) {
	m.upstream.observe(r)
	m.took.WithLabelValues(strconv.FormatBool(r.Complete)).Observe(r.Took.Seconds())
	if r.Failed {
		m.failures.Inc()
		return
	}
	if r.Complete && !m.synced.Swap(true) {
		m.first.Set(r.Took.Seconds())
	}
	m.latency.Observe((r.Waited + r.Took).Seconds())
}

// handler says in the log what could not be read; the rest is answered.
func (m *metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)})
}
