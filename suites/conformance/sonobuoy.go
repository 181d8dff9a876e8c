package conformance

import (
	"fmt"
	"time"

	"github.com/plumbline/plumbline/suites/report/conformance"
)

// amend has the report say why the run ended early, or was not over with it. If there
// is none, it makes one.
func (o *Options) amend(ended error) (conformance.Report, error) {
	r, err := conformance.Read(o.Stage.Dir)
	if err != nil {
		r = conformance.Report{
			Implementation: conformance.Implementation{Project: o.Dataplane}, Harness: harness(),
			Date: time.Now().UTC().Truncate(time.Second), Environment: conformance.Environment{Cluster: o.Stage.Cluster},
		}
	}
	r.Error = ended.Error()
	r = conformance.Complete(r)
	return r, conformance.Write(o.Stage.Dir, r)
}

// Deliver hands the report to Sonobuoy's worker, which would otherwise wait for it
// until its time-out; ended says why there is none, or why it is not to be believed.
func (o *Options) Deliver(ended error) error {
	if o.Stage.Dir == "" {
		if err := o.Place("conformance"); err != nil {
			return err
		}
		fmt.Fprintln(&o.said, "conformance:", ended)
	}
	if _, err := conformance.Read(o.Stage.Dir); err != nil && ended == nil {
		ended = err
	}
	if ended != nil {
		if _, err := o.amend(ended); err != nil {
			return err
		}
	}
	return conformance.WriteDone(o.Results, o.Stage.Dir)
}
