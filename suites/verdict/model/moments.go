package model

import "math"

// Deviations of the two-sided 95 % and 99.9 % bands of a normal distribution.
const (
	z95  = 1.959964
	z999 = 3.290527
)

// Cells of the midpoint rules. The integrands are piecewise linear, so the
// error falls with the square of the cell.
const (
	cells1 = 1 << 14
	cells2 = 512
)

// moments of the loss of one rollout over the phases. noise is the mean of the
// variance that is left when the phases are known.
type moments struct {
	mean, square, noise float64
	least, most         float64
	losses              []float64 // of every cell; all weigh the same
}

func newMoments() moments { return moments{least: math.Inf(1), most: math.Inf(-1)} }

func (m *moments) bound(x float64) {
	m.least, m.most = min(m.least, x), max(m.most, x)
}

func (m *moments) add(x, noise, weight float64) {
	m.mean += x * weight
	m.square += x * x * weight
	m.noise += noise * weight
	m.losses = append(m.losses, x)
	m.bound(x)
}

// integrate1 takes f's mean over u in (0, a); f gives loss and noise.
func integrate1(a float64, f func(u float64) (loss, noise float64)) moments {
	m := newMoments()
	for i := range cells1 {
		x, noise := f(a * (float64(i) + 0.5) / cells1)
		m.add(x, noise, 1.0/cells1)
	}
	for _, u := range []float64{0, a} {
		x, _ := f(u)
		m.bound(x)
	}
	return m
}

// integrate2 takes f's mean over u in (0, a) and v in (0, b), independent.
func integrate2(a, b float64, f func(u, v float64) (loss, noise float64)) moments {
	m := newMoments()
	for i := range cells2 {
		u := a * (float64(i) + 0.5) / cells2
		for j := range cells2 {
			x, noise := f(u, b*(float64(j)+0.5)/cells2)
			m.add(x, noise, 1.0/(cells2*cells2))
		}
	}
	for i := range cells2 + 1 { // the edges, where the extremes are
		u, v := a*float64(i)/cells2, b*float64(i)/cells2
		for _, p := range [][2]float64{{u, 0}, {u, b}, {0, v}, {a, v}} {
			x, _ := f(p[0], p[1])
			m.bound(x)
		}
	}
	return m
}

// prediction is of k independent rollouts together. The bands are normal ones where the sum
// is nearly symmetric, else quantiles of it, cut where no phase can reach (a loss of fixed
// windows has such ends; one of random picks has not), and rounded outwards to whole requests.
func (m moments) prediction(k int, in Inputs) Prediction {
	n := float64(k)
	variance := max(0, m.square-m.mean*m.mean) + m.noise
	p := Prediction{
		Rollouts: k, Mean: n * m.mean, Var: n * variance,
		Slack: in.Rate * in.Slack.Seconds(),
		Min:   n * m.least, Max: n * m.most,
	}
	normal := func(z float64) Band {
		sd := math.Sqrt(p.Var)
		return Band{Low: p.Mean - z*sd, High: p.Mean + z*sd}
	}
	b95, b999 := normal(z95), normal(z999)
	if !in.LB.Random && k > 0 && k <= mostExact && math.Abs(m.skewness())/math.Sqrt(n) > skewed {
		d := m.distribution().sum(k)
		b95, b999 = d.band(0.05), d.band(0.001)
		b999.Low, b999.High = b999.Low-p.Slack*n, b999.High+p.Slack*n // it lies close to where no phase can reach
	}
	p.Band95, p.Band999 = p.cut(b95, in.LB.Random), p.cut(b999, in.LB.Random)
	return p
}

// skewed is the skewness of a sum above which no normal band is printed for it: there a band
// of 95 % holds less than 94.
const skewed = 0.3

// mostExact bounds the work: of more rollouts a sum is hardly skewed.
const mostExact = 60

// skewness is the third standardised moment over the phases; 0 where nothing varies.
func (m moments) skewness() float64 {
	variance := m.square - m.mean*m.mean
	if variance < 1e-9 || len(m.losses) == 0 {
		return 0
	}
	cube := 0.0
	for _, x := range m.losses {
		cube += math.Pow(x-m.mean, 3)
	}
	return cube / float64(len(m.losses)) / math.Pow(variance, 1.5)
}

func (p Prediction) cut(b Band, open bool) Band {
	if slack := p.Slack * float64(p.Rollouts); !open {
		b.Low, b.High = max(b.Low, p.Min-slack), min(b.High, p.Max+slack)
	}
	const dust = 1e-6 // of the quadrature: a band of exactly 0 stays one
	return Band{Low: max(0, math.Floor(b.Low+dust)), High: max(0, math.Ceil(b.High-dust))}
}
