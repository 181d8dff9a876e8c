package haproxy

import (
	"fmt"
	"regexp"
	"strconv"
)

// Oldest is the first version that does all that is asked of it here: servers are added with
// their health checks while it runs (2.5), and its master takes its reload at a socket that
// stays (2.6).
const Oldest = "2.6"

// says finds the version in what HAProxy says of itself with -v, as in "HAProxy version
// 2.6.12-1+deb12u4 2026/01/02".
var says = regexp.MustCompile(`(?m)^HA-?Proxy version (\S+)`)

// VersionIn is the version in the answer to "haproxy -v".
func VersionIn(answer string) (string, error) {
	m := says.FindStringSubmatch(answer)
	if m == nil {
		return "", fmt.Errorf("it tells no version: %.80q", answer)
	}
	return m[1], nil
}

var numbers = regexp.MustCompile(`^(\d+)\.(\d+)`)

// parse reads the first two numbers of a version.
func parse(version string) (major, minor int, err error) {
	m := numbers.FindStringSubmatch(version)
	if m == nil {
		return 0, 0, fmt.Errorf("HAProxy %q is of an unknown version; %s or newer is needed", version, Oldest)
	}
	major, err = strconv.Atoi(m[1])
	if err == nil {
		minor, err = strconv.Atoi(m[2])
	}
	if err != nil {
		return 0, 0, fmt.Errorf("HAProxy %s: %w", version, err)
	}
	return major, minor, nil
}

// CheckVersion refuses what is older than Oldest.
func CheckVersion(version string) error {
	major, minor, err := parse(version)
	if err == nil && (major < 2 || major == 2 && minor < 6) {
		err = fmt.Errorf("HAProxy %s is too old: %s or newer is needed", version, Oldest)
	}
	return err
}

// LosesFirstRow tells whether a HAProxy of the version notices only by the next row that
// who reads its ring has ended; that row is lost, all later ones are kept for the next
// reader. So do 3.0 and 3.2; 2.6 notices at once. (2.8 was not tried and counts as they.)
func LosesFirstRow(version string) bool {
	major, minor, err := parse(version)
	return err != nil || major > 2 || minor > 6
}
