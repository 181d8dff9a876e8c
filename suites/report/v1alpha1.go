package report

import "encoding/json"

// v1alpha1 is the version before: one scenario, the rolling update or an anecdote of it, and
// durations in nanoseconds.
const v1alpha1 = "plumbline.io/v1alpha1"

// fromV1alpha1 reads a report of that version as one of this.
func fromV1alpha1(b []byte) (Summary, error) {
	var old struct {
		Summary
		Scenario string `json:"scenario"`
		Title    string `json:"title"`
		Settings struct {
			Settings
			Nominal bool `json:"nominal"` // an anecdote: ignore rows were not held against the band
		} `json:"settings"`
		Rows []Row `json:"rows"`
	}
	if err := json.Unmarshal(b, &old); err != nil {
		return Summary{}, err
	}
	for i, r := range old.Rows { // older ones do not say it of ours
		old.Rows[i].Judged = r.Judged || r.Own && r.Mode == Fallback
	}
	sc := Scenario{
		Name: old.Scenario, Title: old.Title, Settings: old.Settings.Settings, Model: SingleReplica,
		Promises: []Promise{{Of: OfFallback}}, Rows: old.Rows,
	}
	if !old.Settings.Nominal {
		sc.Promises = append(sc.Promises, Promise{Of: OfIgnore, Band: true})
	}
	if old.LB.Profile == "none" { // clients went to a node port
		sc.Settings.Policy = "Cluster"
	}
	s := old.Summary
	s.Scenarios = []Scenario{sc}
	return s, nil
}
