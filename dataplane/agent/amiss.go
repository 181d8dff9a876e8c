package agent

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/backend"
)

// lookAgain is the time between two looks at what others may change.
const lookAgain = time.Minute

// amiss tells of what is not as the node's dataplane needs it.
type amiss struct {
	backend.Look
	tell func(reason, text string)
	log  *slog.Logger
	told string
}

// run looks until ctx ends.
func (a *amiss) run(ctx context.Context) error {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		a.once()
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// once tells what is amiss, once for as long as it stays the same.
func (a *amiss) once() {
	found, err := a.Amiss()
	text := strings.Join(found, "; ")
	if err != nil {
		text = strings.Join(append(found, err.Error()), "; ")
	}
	if text == a.told {
		return
	}
	a.told = text
	if text == "" {
		a.log.Info("the node is again as it is to be", "reason", a.Reason)
		return
	}
	a.log.Warn("the node is not as it is to be", "reason", a.Reason, "amiss", text, "cure", a.Cure)
	a.tell(a.Reason, text+"; "+a.Cure)
}
