// Package timeouts is for the waits of a suite, a struct of durations: how long something may
// take that is no fault of what is tested. On a slow host they are set, by one flag, and a
// report says what they were.
package timeouts

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Var defines --timeouts, which sets fields of the struct that t points to, by their names
// in lower case.
func Var(fs *pflag.FlagSet, t any) {
	fs.Var(value{reflect.ValueOf(t).Elem()}, "timeouts", "`name=duration,...`: longer waits for a slow host")
}

// Text is "name=duration,...", as the flag takes it.
func Text(t any) string { return value{reflect.Indirect(reflect.ValueOf(t))}.String() }

type value struct{ of reflect.Value }

// String implements pflag.Value.
func (v value) String() string {
	if !v.of.IsValid() { // of none
		return ""
	}
	var out []string
	for i := range v.of.NumField() {
		out = append(out, fmt.Sprintf("%s=%s", name(v.of.Type().Field(i)), v.of.Field(i).Interface()))
	}
	return strings.Join(out, ",")
}

func name(f reflect.StructField) string { return strings.ToLower(f.Name) }

// Type implements pflag.Value.
func (v value) Type() string { return "waits" }

// Set implements pflag.Value. Nothing is set if anything is wrong.
func (v value) Set(text string) error {
	set := map[int]time.Duration{}
	for _, part := range strings.Split(text, ",") {
		key, given, _ := strings.Cut(strings.TrimSpace(part), "=")
		at := -1
		for i := range v.of.NumField() {
			if name(v.of.Type().Field(i)) == key {
				at = i
			}
		}
		if at < 0 {
			return fmt.Errorf("no wait %q; known: %s", key, v)
		}
		d, err := time.ParseDuration(given)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s=%s: want a duration above 0, such as 3m", key, given)
		}
		set[at] = d
	}
	for i, d := range set {
		v.of.Field(i).SetInt(int64(d))
	}
	return nil
}
