package iptables

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// lineNumber finds "line 12: RULE_APPEND failed", "line 12 failed" and "Error
// occurred at line: 12".
var lineNumber = regexp.MustCompile(`\bline:? (\d+)`)

// lineNumbers are the numbers, from 1, of the lines a program complained of.
func lineNumbers(stderr string) []int {
	var out []int
	for _, m := range lineNumber.FindAllStringSubmatch(stderr, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// around is the line complained of first, and the one before and after it.
func around(input, stderr string) string {
	at := lineNumbers(stderr)
	if len(at) == 0 {
		return ""
	}
	lines := strings.SplitAfter(input, "\n")
	from, to := max(0, at[0]-2), min(len(lines), at[0]+1)
	if from >= to {
		return ""
	}
	return strings.Join(lines[from:to], "")
}

// culprits are the frontends whose additions an error complains of. It is empty
// if the error is about something else, such as chains of ours that are gone:
// then somebody has changed them, and a complete Apply will mend that.
func culprits(err error, lines []line) map[plan.Key]error {
	e := refusalIn(err)
	if e == nil || bare.MatchString(e.Stderr) {
		return nil
	}
	out := map[plan.Key]error{}
	for _, n := range lineNumbers(e.Stderr) {
		if n <= len(lines) && lines[n-1].of != (plan.Key{}) {
			out[lines[n-1].of] = err
		}
	}
	return out
}

// atCommit tells whether the kernel refused a transaction without saying what in
// it: so does the legacy interface.
func atCommit(err error, lines []line) bool {
	e := refusalIn(err)
	if e == nil {
		return false
	}
	for _, n := range lineNumbers(e.Stderr) {
		if n <= len(lines) && lines[n-1].text == "COMMIT" {
			return true
		}
	}
	return false
}

var (
	// absent matches complaints about what should be there beside a rule.
	absent = regexp.MustCompile("No chain/target/match by that name|Chain '[^']*' does not exist|Couldn't load target `" + Prefix)
	// bare matches all that the legacy flavour says then.
	bare = regexp.MustCompile(`(?m)line \d+ failed$`)
	// passing matches the kernel's lack of something that may be there next time.
	passing = regexp.MustCompile(`Cannot allocate memory|No buffer space|Resource temporarily unavailable|Interrupted system call`)
)

// refusalIn is the error of a program that complained of what it was to add, nil
// if the error is another.
func refusalIn(err error) *ExecError {
	var e *ExecError
	if !errors.As(err, &e) || errors.Is(err, ErrLocked) || absent.MatchString(e.Stderr) || passing.MatchString(e.Stderr) {
		return nil
	}
	return e
}

// noTables is what the programs say where the kernel has no nat table of a family: legacy, and nft
// of a chain of the kernel's own.
var noTables = regexp.MustCompile(`unable to initialize table|Table does not exist|CHAIN_ADD failed \((No such file or directory|Operation not supported)\): chain (PREROUTING|INPUT|OUTPUT|POSTROUTING)`)

// lacksTables tells whether an error says so.
func lacksTables(err error) bool {
	var e *ExecError
	return errors.As(err, &e) && noTables.MatchString(e.Stderr)
}
