package render

import (
	"fmt"
	"time"
)

// Duration is written as people write it: "1.5s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// Seconds are those of time.Duration.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// MarshalText is how it stands in JSON and YAML.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("read a duration: %w", err)
	}
	*d = Duration(v)
	return nil
}
