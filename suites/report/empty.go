package report

import (
	"reflect"
	"strings"
)

// Empty lists the fields of a part of a report that say nothing, by their names in JSON
// ("environment.kernel"). Flags are left out: false says something. What stands in a
// list is not looked into.
func Empty(part any) []string { return emptyIn("", reflect.Indirect(reflect.ValueOf(part))) }

func emptyIn(path string, v reflect.Value) (out []string) {
	switch {
	case v.Kind() == reflect.Bool:
	case v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0:
		out = append(out, path)
	case v.Kind() == reflect.Pointer:
		return emptyIn(path, v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name != "" {
				out = append(out, emptyIn(strings.TrimPrefix(path+"."+name, "."), v.Field(i))...)
			}
		}
	}
	return out
}
