package dptest_test

import (
	"flag"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
)

var update = flag.Bool("update", false, "rewrite the plan sections of the cases")

func TestPlans(t *testing.T) { dptest.Plans(t, "../testdata", *update) }
