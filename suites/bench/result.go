//go:build linux

package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Result is one row at one size.
type Result struct {
	Row      string
	Services int
	Ended    string // what did not finish, or why it was not begun
	Lacks    string // what of it is not measured, and why

	Cold      time.Duration
	ColdCPU   time.Duration
	ColdApply time.Duration // own dataplanes: the first Apply alone
	Kernel    time.Duration // what the kernel takes for the same elements of nftables by itself

	FirstPacket, Direct Spread
	Rates               []Rate
	UDPConnects         UDPConnects

	Change       Spread // write at the API -> last notification of the kernel
	Ops, Commits int    // of a change, median
	ChangeCPU    time.Duration
	RSS, Peak    int64

	Steady Steady
	Bigs   []Big // by number of endpoints
	Flows  Flows

	Switch Spread // write at the API -> first packet that follows

	Quiet      Spread // one warm restart without load, as the cold start is
	QuietApply time.Duration

	Warm      Spread // under load
	WarmApply time.Duration
	Load      Load
}

func (l Load) plus(o Load) Load {
	return Load{
		Sent: l.Sent + o.Sent, Failed: l.Failed + o.Failed, Cut: l.Cut + o.Cut, During: l.During + o.During,
		ControlSent: l.ControlSent + o.ControlSent, ControlFailed: l.ControlFailed + o.ControlFailed,
		Long: l.Long + o.Long, Broken: l.Broken + o.Broken, First: cmp.Or(l.First, o.First),
	}
}

func median(in []int) int {
	if len(in) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(in))[len(in)/2]
}

var columns = []string{
	"dataplane", "Services", "cold start", "first Apply", "kernel alone (cold start by it)", "first packet p50 / p99", "direct p50 / p99", "connections (CPU of one)", "connect(2) of UDP p50", "change to kernel p50 / p99",
	"operations", "CPU of a change", fmt.Sprintf("%d changes a second p50 / p99", steadyRate), "change of a big Service p50 / p99", "stale UDP flows", "change to first packet p50 / p99", "warm restart, no load", "its Apply, no load", "warm restart under load", "its Apply under load", "connections lost in restarts", "RSS (peak)",
}

// Markdown is the results as a table, a line for each row and size, and under it what the
// run lacked.
func Markdown(results []Result, lacks string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, r := range results {
		cells := []string{
			r.Row, fmt.Sprint(r.Services), short(r.Cold), short(r.ColdApply), r.kernel(), r.FirstPacket.String(), r.Direct.String(), each(r.Rates), r.UDPConnects.String(), r.Change.String(),
			number(r.Ops), short(r.ChangeCPU), r.Steady.String(), each(r.Bigs), r.Flows.String(), r.Switch.String(), r.Quiet.cell(short(r.Quiet.P50)), short(r.QuietApply), r.Warm.cell(short(r.Warm.P50)), short(r.WarmApply), r.Load.String(), memory(r),
		}
		if r.Ended != "" {
			cells[2] = strings.TrimSpace(cells[2] + " ended: " + r.Ended)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	if lacks != "" {
		fmt.Fprintf(&b, "\nlacks: %s\n", lacks)
	}
	for _, r := range results {
		if r.Lacks != "" {
			fmt.Fprintf(&b, "\n%s\n", r.lacks())
		}
	}
	return b.String()
}

func (r Result) lacks() string {
	return fmt.Sprintf("%s at %d Services: %s", r.Row, r.Services, r.Lacks)
}

// String is the lost connections, with the control's beside them.
func (l Load) String() string {
	if l.Sent == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d; control %d of %d; open ones broken %d of %d", l.Failed, l.Sent, l.ControlFailed, l.ControlSent, l.Broken, l.Long)
}

// short is a duration in three digits; nothing for none.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}

// String is the median and the 99th percentile.
func (s Spread) String() string { return s.cell(short(s.P50) + " / " + short(s.P99)) }

// cell is text about the spread, with a word on those that are missing.
func (s Spread) cell(text string) string {
	switch {
	case s.N == s.Of && s.N == 0:
		return ""
	case s.N == 0:
		return fmt.Sprintf("ended after 0 of %d", s.Of)
	case s.N < s.Of:
		return fmt.Sprintf("%s (ended after %d of %d)", text, s.N, s.Of)
	}
	return text
}

// each is what there is of a kind.
func each[T fmt.Stringer](in []T) string {
	var all []string
	for _, b := range in {
		all = append(all, b.String())
	}
	return strings.Join(all, "; ")
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func memory(r Result) string {
	if r.RSS == 0 {
		return ""
	}
	return fmt.Sprintf("%d MiB (%d)", r.RSS>>20, r.Peak>>20)
}

// Benchstat is the results as lines of Go's benchmark format. A spread is given
// by its median and its 99th percentile.
func Benchstat(results []Result) string {
	var b strings.Builder
	for _, r := range results {
		line := func(what string, n int, d time.Duration, more string) {
			if d > 0 {
				fmt.Fprintf(&b, "Benchmark%s/dataplane=%s/services=%d %d %d ns/op%s\n", what, strings.ReplaceAll(r.Row, " ", "_"), r.Services, max(n, 1), d.Nanoseconds(), more)
			}
		}
		p99 := func(s Spread) string { return fmt.Sprintf(" %d p99-ns", s.P99.Nanoseconds()) }
		line("ColdStart", 1, r.Cold, fmt.Sprintf(" %d cpu-ns", r.ColdCPU.Nanoseconds()))
		line("KernelAlone", 1, r.Kernel, fmt.Sprintf(" %.2f cold-ratio", r.ColdRatio()))
		line("FirstPacket", r.FirstPacket.N, r.FirstPacket.P50, p99(r.FirstPacket))
		line("FirstPacketDirect", r.Direct.N, r.Direct.P50, p99(r.Direct))
		for _, rate := range r.Rates {
			line("ConnectionCPU/from="+rate.From, 1, rate.ThroughCPU, fmt.Sprintf(" %.0f conns/s %.0f direct-conns/s %d direct-cpu-ns", rate.Through, rate.Direct, rate.DirectCPU.Nanoseconds()))
		}
		line("UDPConnectDirect", r.UDPConnects.Pairs, r.UDPConnects.Direct, fmt.Sprintf(" %d more-ns", r.UDPConnects.More.Nanoseconds()))
		line("ChangeToKernel", r.Change.N, r.Change.P50, p99(r.Change)+fmt.Sprintf(" %d ops %d cpu-ns %d rss-bytes", r.Ops, r.ChangeCPU.Nanoseconds(), r.RSS))
		line("SteadyChangeToKernel", r.Steady.Spread.N, r.Steady.Spread.P50, p99(r.Steady.Spread))
		for _, big := range r.Bigs {
			line(fmt.Sprintf("BigChangeToKernel/endpoints=%d", big.Endpoints), big.Change.N, big.Change.P50, p99(big.Change)+fmt.Sprintf(" %d ops", big.Ops))
		}
		line("ChangeToPacket", r.Switch.N, r.Switch.P50, p99(r.Switch))
		line("WarmRestartNoLoad", r.Quiet.N, r.Quiet.P50, "")
		line("WarmRestart", r.Warm.N, r.Warm.P50, fmt.Sprintf(" %d lost", r.Load.Failed+r.Load.Broken))
	}
	return b.String()
}
