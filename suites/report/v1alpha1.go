package report

import (
	"encoding/json"
	"time"
)

// v1alpha1 is the version before: one scenario, the rolling update or an anecdote of it, and
// durations in nanoseconds.
const v1alpha1 = "plumbline.io/v1alpha1"

// v1alpha1Settings are Settings whose durations are numbers.
type v1alpha1Settings struct {
	Settings
	Timeout  time.Duration `json:"timeout"`
	Deadline time.Duration `json:"deadline"`
	Delay    time.Duration `json:"delay"`
	PreStop  time.Duration `json:"preStop"`
	Grace    time.Duration `json:"grace"`
	MinReady time.Duration `json:"minReady"`
	Nominal  bool          `json:"nominal"` // an anecdote: ignore rows were not held against the band
}

func (o v1alpha1Settings) now() Settings {
	s := o.Settings
	s.Timeout, s.Deadline, s.Delay = Duration(o.Timeout), Duration(o.Deadline), Duration(o.Delay)
	s.PreStop, s.Grace, s.MinReady = Duration(o.PreStop), Duration(o.Grace), Duration(o.MinReady)
	return s
}

// v1alpha1LB is an LB whose durations are numbers.
type v1alpha1LB struct {
	LB
	Interval time.Duration `json:"interval"`
	Fast     time.Duration `json:"fast"`
	Down     time.Duration `json:"down"`
	Connect  time.Duration `json:"connect"`
	Client   time.Duration `json:"client"`
	Server   time.Duration `json:"server"`
}

func (o v1alpha1LB) now() LB {
	lb := o.LB
	lb.Interval, lb.Fast, lb.Down = Duration(o.Interval), Duration(o.Fast), Duration(o.Down)
	lb.Connect, lb.Client, lb.Server = Duration(o.Connect), Duration(o.Client), Duration(o.Server)
	return lb
}

// fromV1alpha1 reads a report of that version as one of this.
func fromV1alpha1(b []byte) (Summary, error) {
	var old struct {
		Summary
		LB       v1alpha1LB       `json:"lb"`
		Scenario string           `json:"scenario"`
		Title    string           `json:"title"`
		Settings v1alpha1Settings `json:"settings"`
		Rows     []Row            `json:"rows"`
	}
	if err := json.Unmarshal(b, &old); err != nil {
		return Summary{}, err
	}
	for i, r := range old.Rows { // older ones do not say it of ours
		old.Rows[i].Judged = r.Judged || r.Own && r.Mode == Fallback
	}
	sc := Scenario{
		Name: old.Scenario, Title: old.Title, Settings: old.Settings.now(), Model: SingleReplica,
		Promises: []Promise{{Of: OfFallback}}, Rows: old.Rows,
	}
	if !old.Settings.Nominal {
		sc.Promises = append(sc.Promises, Promise{Of: OfIgnore, Band: true})
	}
	if old.LB.Profile == "none" { // clients went to a node port
		sc.Settings.Policy = "Cluster"
	}
	s := old.Summary
	s.LB, s.Scenarios = old.LB.now(), []Scenario{sc}
	return s, nil
}
