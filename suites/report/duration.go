package report

import (
	"encoding/json"
	"fmt"
	"time"
)

func (d Duration) String() string { return time.Duration(d).String() }

// Seconds are those of time.Duration.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// MarshalText writes it as in Go: 2.5s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads that, or a number of nanoseconds as in v1alpha1.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var ns int64
	if json.Unmarshal(b, &ns) == nil {
		*d = Duration(ns)
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("read a duration: %s is neither text nor a number", b)
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("read a duration: %w", err)
	}
	*d = Duration(v)
	return nil
}
