package plan

import "fmt"

// Refused says which frontends the kernel did not take, and why. It is what
// Target.Apply returns when every other one is as asked: a single Service never
// holds up the others. What was there before of a refused frontend may be gone.
type Refused struct {
	Frontends map[Key]error
}

// Error names one of them and the number of the rest.
func (r *Refused) Error() string {
	for k, err := range r.Frontends {
		if rest := len(r.Frontends) - 1; rest > 0 {
			return fmt.Sprintf("frontend %s refused, and %d others: %v", k, rest, err)
		}
		return fmt.Sprintf("frontend %s refused: %v", k, err)
	}
	return "no frontend refused"
}
