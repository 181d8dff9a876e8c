package model

// distribution is one of losses on a grid: the probability of least + i step.
type distribution struct {
	least, step float64
	p           []float64
}

// bins of one rollout's distribution. A sum of k rollouts has k times as many.
const bins = 128

// distribution of one rollout over the phases. Each loss is shared between its two
// neighbours on the grid, which keeps the mean.
func (m moments) distribution() distribution {
	d := distribution{least: m.least, step: (m.most - m.least) / (bins - 1), p: make([]float64, bins)}
	weight := 1 / float64(len(m.losses))
	for _, x := range m.losses {
		at := (x - d.least) / d.step
		i := min(int(at), bins-2)
		d.p[i] += weight * (1 - (at - float64(i)))
		d.p[i+1] += weight * (at - float64(i))
	}
	return d
}

// sum is the distribution of k independent ones together.
func (d distribution) sum(k int) distribution {
	out := distribution{step: d.step, p: []float64{1}}
	for power := d; k > 0; k /= 2 {
		if k%2 == 1 {
			out = out.plus(power)
		}
		if k > 1 {
			power = power.plus(power)
		}
	}
	return out
}

func (d distribution) plus(e distribution) distribution {
	out := distribution{least: d.least + e.least, step: d.step, p: make([]float64, len(d.p)+len(e.p)-1)}
	for i, p := range d.p {
		if p == 0 {
			continue
		}
		for j, q := range e.p {
			out.p[i+j] += p * q
		}
	}
	return out
}

// band holds all but a part of the probability, and leaves as much out below as above.
func (d distribution) band(out float64) Band {
	return Band{Low: d.quantile(out / 2), High: d.quantile(1 - out/2)}
}

// quantile is the least value of the grid up to which that much lies.
func (d distribution) quantile(p float64) float64 {
	below := 0.0
	for i, q := range d.p {
		if below += q; below >= p {
			return d.least + float64(i)*d.step
		}
	}
	return d.least + float64(len(d.p)-1)*d.step
}
