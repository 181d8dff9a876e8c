package agent

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// The metrics by kube-proxy's names, with what upstream's labels are, and what they count.
func TestUpstream(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	status := loop.Status{Applied: begin, Queued: begin.Add(time.Second), Seen: loop.Changes{Services: 3, Slices: 7}, Done: loop.Changes{Services: 1, Slices: 4}, NoLocal: plan.NoLocal{Internal: [2]int{1, 2}, External: [2]int{3, 4}}}
	for mode, own := range map[string]string{
		"nftables":  "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{IPv4} 1, kubeproxy_sync_proxy_rules_nftables_sync_failures_total{IPv6} 1",
		"iptables":  "kubeproxy_sync_proxy_rules_iptables_restore_failures_total{IPv4} 1, kubeproxy_sync_proxy_rules_iptables_restore_failures_total{IPv6} 1",
		"userspace": "",
	} {
		t.Run(mode, func(t *testing.T) {
			r := prometheus.NewRegistry()
			u := newUpstream(r, mode, func() loop.Status { return status }, func() conntrack.Stats { return conntrack.Stats{Deleted: 5, IPv6: 2} })
			u.now = func() time.Time { return begin.Add(3 * time.Second) }
			u.observe(loop.Round{Complete: true, Took: time.Second, Triggers: []loop.Trigger{{At: begin}, {At: begin.Add(time.Second), IPv6: true}, {At: begin.Add(2 * time.Second), IPv6: true}}})
			u.observe(loop.Round{Took: 250 * time.Millisecond, Failed: true})
			u.answered("/healthz", 200)
			u.answered("/healthz", 503)
			u.answered("/livez", 200)
			want := strings.Split(`kubeproxy_conntrack_reconciler_deleted_entries_total{IPv4} 3
kubeproxy_conntrack_reconciler_deleted_entries_total{IPv6} 2
kubeproxy_network_programming_duration_seconds{IPv4} 1 of 3 s
kubeproxy_network_programming_duration_seconds{IPv6} 2 of 3 s
kubeproxy_proxy_healthz_total{200} 1
kubeproxy_proxy_healthz_total{503} 1
kubeproxy_proxy_livez_total{200} 1
kubeproxy_sync_full_proxy_rules_duration_seconds{IPv4} 1 of 1 s
kubeproxy_sync_full_proxy_rules_duration_seconds{IPv6} 1 of 1 s
kubeproxy_sync_partial_proxy_rules_duration_seconds{IPv4} 1 of 0.25 s
kubeproxy_sync_partial_proxy_rules_duration_seconds{IPv6} 1 of 0.25 s
kubeproxy_sync_proxy_rules_duration_seconds{IPv4} 2 of 1.25 s
kubeproxy_sync_proxy_rules_duration_seconds{IPv6} 2 of 1.25 s
kubeproxy_sync_proxy_rules_endpoint_changes_pending{} 3
kubeproxy_sync_proxy_rules_endpoint_changes_total{} 7
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{IPv4} 1.700000001e+09
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{IPv6} 1.700000001e+09
kubeproxy_sync_proxy_rules_last_timestamp_seconds{IPv4} 1.7e+09
kubeproxy_sync_proxy_rules_last_timestamp_seconds{IPv6} 1.7e+09
kubeproxy_sync_proxy_rules_no_local_endpoints_total{IPv4,external} 3
kubeproxy_sync_proxy_rules_no_local_endpoints_total{IPv4,internal} 1
kubeproxy_sync_proxy_rules_no_local_endpoints_total{IPv6,external} 4
kubeproxy_sync_proxy_rules_no_local_endpoints_total{IPv6,internal} 2
kubeproxy_sync_proxy_rules_service_changes_pending{} 2
kubeproxy_sync_proxy_rules_service_changes_total{} 3`, "\n")
			if own != "" {
				want = append(want, strings.Split(own, ", ")...)
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, samples(t, r)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// samples are lines: name, values of labels, value.
func samples(t *testing.T, r *prometheus.Registry) (out []string) {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			value := number(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = number(float64(h.GetSampleCount())) + " of " + number(h.GetSampleSum()) + " s"
			}
			out = append(out, family.GetName()+"{"+strings.Join(labels, ",")+"} "+value)
		}
	}
	slices.Sort(out)
	return out
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// /healthz knows of IPv6 what the backend says.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		says func() bool
		want bool
	}{{nil, false}, {func() bool { return false }, false}, {func() bool { return true }, true}} {
		if got := reportWith(loop.Status{Ineligible: true}, c.says); got.WithoutIPv6 != c.want || !got.Ineligible {
			t.Errorf("report %+v, want WithoutIPv6 %t", got, c.want)
		}
	}
}
