package timeouts

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type waits struct{ Settle, Probes time.Duration }

func TestTimeouts(t *testing.T) {
	defaults := waits{90 * time.Second, time.Second}
	for text, want := range map[string]string{
		"settle=3m": "settle=3m0s,probes=1s", "probes=2s, settle=1h": "settle=1h0m0s,probes=2s",
		"": `no wait ""; known: settle=1m30s,probes=1s`, "settle": "settle=: want a duration above 0", "probes=2s,settle=-1s": "settle=-1s: want a duration",
		"setle=3m": `no wait "setle"; known: settle`,
	} {
		got := defaults
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		fs.SetOutput(io.Discard)
		Var(fs, &got)
		if d := fs.Lookup("timeouts").DefValue; d != "settle=1m30s,probes=1s" {
			t.Errorf("default %q", d)
		}
		err := fs.Parse([]string{"--timeouts=" + text})
		if err != nil {
			if !strings.Contains(err.Error(), want) || got != defaults {
				t.Errorf("%q: %v, then %+v; want %q and nothing set", text, err, got, want)
			}
			continue
		}
		if Text(got) != want || Text(&got) != want {
			t.Errorf("%q: %s, want %s", text, Text(got), want)
		}
	}
}
