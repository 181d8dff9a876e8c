//go:build linux

package bench

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/plumbline/plumbline/suites/report/render"
)

// APIVersion is that of bench.json. A field may be added; a change of meaning takes a new version.
const APIVersion = "bench.plumbline.io/v1alpha1"

// Data is the results for programs.
type Data struct {
	APIVersion string    `json:"apiVersion"`
	Lacks      string    `json:"lacks,omitempty"` // what this run had less than another, and why
	Rows       []DataRow `json:"rows"`
}

// DataRow is one dataplane at one size.
type DataRow struct {
	Dataplane  string          `json:"dataplane"`
	Services   int             `json:"services"`
	Ended      string          `json:"ended,omitempty"`       // what did not finish, or why it was not begun
	Lacks      string          `json:"lacks,omitempty"`       // what of it is not measured, and why
	Cold       render.Duration `json:"cold,omitempty"`        // from the start of the process to a dataplane that has all Services
	ColdCPU    render.Duration `json:"coldCPU,omitempty"`     // CPU time of that
	ColdApply  render.Duration `json:"coldApply,omitempty"`   // own dataplanes: of it, the first Apply
	Kernel     render.Duration `json:"kernelAlone,omitempty"` // what the kernel takes for the same elements of nftables, written by themselves in as few transactions as fit
	ColdRatio  float64         `json:"coldRatio,omitempty"`   // the cold start in that time
	First      *DataSpread     `json:"firstPacket,omitempty"`
	Direct     *DataSpread     `json:"direct,omitempty"`      // the same straight to an endpoint
	Rates      []DataRate      `json:"rates,omitempty"`       // connections as fast as they go, by where they come from
	UDP        *DataUDP        `json:"udpConnects,omitempty"` // connect(2) of UDP sockets on the node
	Change     *DataSpread     `json:"change,omitempty"`      // write at the API to the last notification of the kernel
	Ops        int             `json:"operations,omitempty"`
	Commits    int             `json:"commits,omitempty"`
	ChangeCPU  render.Duration `json:"changeCPU,omitempty"`
	Steady     *DataSteady     `json:"steady,omitempty"`     // changes at a rate
	Bigs       []DataBig       `json:"bigs,omitempty"`       // changes of Services with many endpoints
	Flows      *Flows          `json:"flows,omitempty"`      // UDP flows that were there during the changes
	Switch     *DataSpread     `json:"switch,omitempty"`     // write at the API to the first packet that follows
	Quiet      *DataSpread     `json:"warmNoLoad,omitempty"` // a restart over what is there, without load
	QuietApply render.Duration `json:"warmNoLoadApply,omitempty"`
	Warm       *DataSpread     `json:"warm,omitempty"` // a restart over what is there, under load
	WarmApply  render.Duration `json:"warmApply,omitempty"`
	Load       *Load           `json:"load,omitempty"` // connections around the restarts
	RSS        int64           `json:"rss,omitempty"`  // bytes
	Peak       int64           `json:"peak,omitempty"` // bytes, the most there was
}

// DataSpread is what N of Of measurements say.
type DataSpread struct {
	N   int             `json:"n"`
	Of  int             `json:"of"`
	P50 render.Duration `json:"p50"`
	P99 render.Duration `json:"p99"`
	Max render.Duration `json:"max"`
}

// DataSteady is changes at a rate: write at the API to the commit of the kernel.
type DataSteady struct {
	Change    *DataSpread `json:"change"`
	Rate      float64     `json:"rate"`      // changes a second
	Coalesced int         `json:"coalesced"` // not seen before the Service's next change
}

// DataRate is connections, one after another of each of two clients, from a place: the median of
// all turns, a second, and what one took of the whole host's processors.
type DataRate struct {
	From       string          `json:"from"` // client, node
	Through    float64         `json:"through"`
	ThroughCPU render.Duration `json:"throughCPU"`
	Direct     float64         `json:"direct"` // straight to an endpoint
	DirectCPU  render.Duration `json:"directCPU"`
}

// DataUDP is connect(2) of a UDP socket to an endpoint and to a Service, in turn: both ask what a dataplane has at
// sockets, and one finds something.
type DataUDP struct {
	Pairs   int             `json:"pairs"`
	Direct  render.Duration `json:"direct"` // p50
	More    render.Duration `json:"more"`   // p50 of the differences of each pair
	MoreP10 render.Duration `json:"moreP10"`
	MoreP90 render.Duration `json:"moreP90"`
}

// DataBig is one change of a Service with many endpoints.
type DataBig struct {
	Endpoints int         `json:"endpoints"`
	Change    *DataSpread `json:"change"`
	Ops       int         `json:"operations,omitempty"`
}

// NewData is the results as programs read them.
func NewData(results []Result, lacks string) Data {
	d := Data{APIVersion: APIVersion, Lacks: lacks, Rows: []DataRow{}}
	for _, r := range results {
		row := DataRow{
			Dataplane: r.Row, Services: r.Services, Ended: r.Ended, Lacks: r.Lacks,
			Cold: render.Duration(r.Cold), ColdCPU: render.Duration(r.ColdCPU), ColdApply: render.Duration(r.ColdApply),
			Kernel: render.Duration(r.Kernel), ColdRatio: math.Round(100*r.ColdRatio()) / 100,
			First: r.FirstPacket.data(), Direct: r.Direct.data(), Change: r.Change.data(), Ops: r.Ops, Commits: r.Commits,
			ChangeCPU: render.Duration(r.ChangeCPU), Switch: r.Switch.data(), Quiet: r.Quiet.data(), QuietApply: render.Duration(r.QuietApply), Warm: r.Warm.data(), WarmApply: render.Duration(r.WarmApply),
			RSS: r.RSS, Peak: r.Peak,
		}
		if r.Load != (Load{}) {
			row.Load = &r.Load
		}
		if r.Flows != (Flows{}) {
			row.Flows = &r.Flows
		}
		if steady := r.Steady.Spread.data(); steady != nil {
			row.Steady = &DataSteady{steady, r.Steady.Rate, r.Steady.Coalesced}
		}
		for _, a := range r.Rates {
			row.Rates = append(row.Rates, DataRate{a.From, a.Through, render.Duration(a.ThroughCPU), a.Direct, render.Duration(a.DirectCPU)})
		}
		if u := r.UDPConnects; u.Pairs > 0 {
			row.UDP = &DataUDP{u.Pairs, render.Duration(u.Direct), render.Duration(u.More), render.Duration(u.MoreP10), render.Duration(u.MoreP90)}
		}
		for _, b := range r.Bigs {
			row.Bigs = append(row.Bigs, DataBig{b.Endpoints, b.Change.data(), b.Ops})
		}
		d.Rows = append(d.Rows, row)
	}
	return d
}

func (s Spread) data() *DataSpread {
	if s.Of == 0 {
		return nil
	}
	return &DataSpread{N: s.N, Of: s.Of, P50: render.Duration(s.P50), P99: render.Duration(s.P99), Max: render.Duration(s.Max)}
}

func dataJSON(results []Result, lacks string) (string, error) {
	b, err := json.MarshalIndent(NewData(results, lacks), "", " ")
	if err != nil {
		return "", fmt.Errorf("write results as JSON: %w", err)
	}
	return string(b) + "\n", nil
}

// Cells are the results as rows of a table, of which the first is the heading. What ended is for
// Ends to say.
func Cells(results []Result, wide bool) [][]string {
	rows := [][]string{{"SERVICES", "DATAPLANE", "COLD", "CHANGE p50/p99", "SWITCH p50/p99", "WARM"}}
	if wide {
		rows[0] = append(rows[0], "KERNEL ALONE (COLD BY IT)", "WARM, NO LOAD", "LOST IN RESTARTS", "FIRST PACKET p50 / p99", "DIRECT p50 / p99", "CONNECTIONS (CPU OF ONE)", "UDP CONNECT", "OPERATIONS", "CPU OF A CHANGE", fmt.Sprintf("%d/s p50 / p99", steadyRate), "BIG SERVICES p50 / p99", "STALE FLOWS", "RSS (PEAK)")
	}
	for _, r := range results {
		row := []string{fmt.Sprint(r.Services), r.Row, short(r.Cold), r.Change.String(), r.Switch.String(), r.Warm.cell(short(r.Warm.P50))}
		if r.Ended != "" {
			row[1] += " *"
		}
		if wide {
			row = append(row, r.kernel(), r.Quiet.cell(short(r.Quiet.P50)), r.Load.String(), r.FirstPacket.String(), r.Direct.String(), each(r.Rates), r.UDPConnects.String(), number(r.Ops), short(r.ChangeCPU), r.Steady.String(), each(r.Bigs), r.Flows.String(), memory(r))
		}
		rows = append(rows, row)
	}
	return rows
}

// Ends are what did not finish, a line each.
func Ends(results []Result) (lines []string) {
	for _, r := range results {
		if r.Ended != "" {
			lines = append(lines, fmt.Sprintf("* %s at %d Services: %s", r.Row, r.Services, r.Ended))
		}
		if r.Lacks != "" {
			lines = append(lines, "* "+r.lacks())
		}
	}
	return lines
}
