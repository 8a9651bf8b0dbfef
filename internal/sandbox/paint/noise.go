package paint

import "math"

// hash2 is a number from 0 to 1 that looks random but follows from its arguments.
func hash2(x, y int, seed uint32) float32 {
	h := uint32(x)*0x85ebca6b ^ uint32(y)*0xc2b2ae35 ^ seed*0x27d4eb2f
	h ^= h >> 15
	h *= 0x2c1b3c6d
	h ^= h >> 12
	h *= 0x297a2d39
	h ^= h >> 15
	return float32(h>>8) / (1 << 24)
}

// noise is smooth value noise from 0 to 1, one bump a unit.
func noise(x, y float32, seed uint32) float32 {
	fx, fy := floor(x), floor(y)
	ix, iy := int(fx), int(fy)
	u, v := smooth(x-fx), smooth(y-fy)
	top := lerp(hash2(ix, iy, seed), hash2(ix+1, iy, seed), u)
	bottom := lerp(hash2(ix, iy+1, seed), hash2(ix+1, iy+1, seed), u)
	return lerp(top, bottom, v)
}

// fractal adds up octaves of noise, each twice as fine and half as strong. It is about 0 to 1.
func fractal(x, y float32, octaves int, seed uint32) float32 {
	sum, weight, total := float32(0), float32(1), float32(0)
	for i := range octaves {
		sum += weight * noise(x, y, seed+uint32(i)*101)
		total += weight
		weight *= 0.5
		// turned a little, so that the grids of two octaves do not line up
		x, y = 1.6*x-1.2*y+17.3, 1.2*x+1.6*y-9.1
	}
	return sum / total
}

// ridged is fractal with sharp crests.
func ridged(x, y float32, octaves int, seed uint32) float32 {
	sum, weight, total := float32(0), float32(1), float32(0)
	for i := range octaves {
		n := 1 - abs(2*noise(x, y, seed+uint32(i)*131)-1)
		sum += weight * n * n
		total += weight
		weight *= 0.48
		x, y = 1.6*x-1.2*y+5.7, 1.2*x+1.6*y+31.4
	}
	return sum / total
}

func lerp(a, b, t float32) float32 { return a + (b-a)*t }

// smooth is an ease from 0 to 1.
func smooth(t float32) float32 { return t * t * (3 - 2*t) }

// step rises softly from 0 at low to 1 at high. high may be the lower one.
func step(low, high, v float32) float32 {
	return smooth(min(max((v-low)/(high-low), 0), 1))
}

func abs(v float32) float32 { return max(v, -v) }

func floor(v float32) float32 {
	i := float32(int(v))
	if i > v {
		return i - 1
	}
	return i
}

func hypot(x, y float32) float32 { return float32(math.Sqrt(float64(x*x + y*y))) }

func exp(v float32) float32 { return float32(math.Exp(float64(v))) }

func sin(v float32) float32 { return float32(math.Sin(float64(v))) }

func cos(v float32) float32 { return float32(math.Cos(float64(v))) }
