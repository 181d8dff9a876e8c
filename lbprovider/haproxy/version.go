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

// CheckVersion refuses what is older than Oldest.
func CheckVersion(version string) error {
	m := numbers.FindStringSubmatch(version)
	if m == nil {
		return fmt.Errorf("HAProxy %q is of an unknown version; %s or newer is needed", version, Oldest)
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return fmt.Errorf("HAProxy %s: %w", version, err)
	}
	minor, err := strconv.Atoi(m[2])
	if err != nil {
		return fmt.Errorf("HAProxy %s: %w", version, err)
	}
	if major < 2 || major == 2 && minor < 6 {
		return fmt.Errorf("HAProxy %s is too old: %s or newer is needed", version, Oldest)
	}
	return nil
}
