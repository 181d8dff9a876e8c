package lifecycle

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Event is one thing that happened to a pod.
type Event struct {
	At    time.Duration // since the life began
	Step  uint64        // changes of the API in their order, from 1; 0: it is no change of the API
	Pod   string        // its part in the life
	Facet string        // what of it changed
	Value string        // to what
}

// Life is what happened in one life of the script.
type Life struct {
	Name   string
	Events []Event // by At
}

// Run is one play of the script.
type Run []Life

func (r Run) life(name string) (Life, bool) {
	i := slices.IndexFunc(r, func(l Life) bool { return l.Name == name })
	if i < 0 {
		return Life{}, false
	}
	return r[i], true
}

// tidy sorts events, counts their steps from 1 and calls pods by their parts, in
// the order in which they were made.
func tidy(events []Event, parts []string) []Event {
	out := slices.Clone(events)
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	var steps []uint64
	made := map[string]uint64{}
	for _, e := range out {
		if e.Step > 0 {
			steps = append(steps, e.Step)
		}
		if e.Facet == facetObject && e.Value == "made" {
			made[e.Pod] = e.Step
		}
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	var pods []string
	for pod := range made {
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b string) int { return cmp.Compare(made[a], made[b]) })
	for i := range out {
		e := &out[i]
		if at, found := slices.BinarySearch(steps, e.Step); found {
			e.Step = uint64(at) + 1
		}
		if at := slices.Index(pods, e.Pod); at >= 0 && at < len(parts) {
			e.Pod = parts[at]
		}
	}
	return out
}

// Write writes runs as text: a line per event with time, step, pod, facet, value.
func Write(w io.Writer, title string, runs []Run) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n", title)
	for n, r := range runs {
		for _, l := range r {
			fmt.Fprintf(b, "\nrun %d life %s\n", n+1, l.Name)
			for _, e := range l.Events {
				step := "-"
				if e.Step > 0 {
					step = strconv.FormatUint(e.Step, 10)
				}
				fmt.Fprintf(b, "%+8.3fs %3s  %-4s %-34s %s\n", e.At.Seconds(), step, e.Pod, e.Facet, e.Value)
			}
		}
	}
	return b.Flush()
}

// Read reads what Write wrote.
func Read(r io.Reader) ([]Run, error) {
	var runs []Run
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 0 || f[0] == "#":
			continue
		case len(f) == 4 && f[0] == "run" && f[2] == "life":
			number, err := strconv.Atoi(f[1])
			if err != nil || number != len(runs) && number != len(runs)+1 || number < 1 {
				return nil, fmt.Errorf("read recording: line %d: run %s after %d runs", n, f[1], len(runs))
			}
			if number > len(runs) {
				runs = append(runs, nil)
			}
			runs[number-1] = append(runs[number-1], Life{Name: f[3]})
			continue
		}
		if len(runs) == 0 {
			return nil, fmt.Errorf("read recording: line %d: an event before any run", n)
		}
		e, err := parseEvent(f)
		if err != nil {
			return nil, fmt.Errorf("read recording: line %d: %w", n, err)
		}
		run := runs[len(runs)-1]
		life := &run[len(run)-1]
		life.Events = append(life.Events, e)
	}
	return runs, lines.Err()
}

func parseEvent(f []string) (e Event, err error) {
	if len(f) < 5 {
		return e, fmt.Errorf("%d words, want time, step, pod, facet and value", len(f))
	}
	if e.At, err = time.ParseDuration(f[0]); err != nil {
		return e, err
	}
	if f[1] != "-" {
		if e.Step, err = strconv.ParseUint(f[1], 10, 64); err != nil {
			return e, err
		}
	}
	e.Pod, e.Facet, e.Value = f[2], f[3], strings.Join(f[4:], " ")
	return e, nil
}
