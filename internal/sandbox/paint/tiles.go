package paint

import "math/rand/v2"

// paintTiles lays a Truchet pattern: square tiles with two quarter rings each, turned by chance, that
// join to long bands. Every other tile is divided once more.
func paintTiles(c *canvas, rnd *rand.Rand, inks []rgb, density float32) {
	t := tiling{seed: rnd.Uint32(), side: 0.30 - 0.19*density, inks: inks, drift: 0.6 + rnd.Float32()}
	size := float32(c.h)
	for y := range c.h {
		for x := range c.w {
			var sum rgb
			for i := range 4 { // four samples a pixel
				fx := (float32(x) + 0.25 + 0.5*float32(i%2)) / size
				fy := (float32(y) + 0.25 + 0.5*float32(i/2)) / size
				sum = sum.add(t.at(fx, fy), 0.25)
			}
			c.pix[y*c.w+x] = sum
		}
	}
}

type tiling struct {
	seed  uint32
	side  float32
	inks  []rgb
	drift float32
}

// at is the colour of a place.
func (t tiling) at(x, y float32) rgb {
	cx, cy := int(floor(x/t.side)), int(floor(y/t.side))
	u, v := x/t.side-float32(cx), y/t.side-float32(cy)
	if hash2(cx, cy, t.seed+2) < 0.5 {
		u = 1 - u
	}
	// the distance to the nearer one of two rings around opposite corners
	near, far := hypot(u, v), hypot(1-u, 1-v)
	d, corner := near, 0
	if far < near {
		d, corner = far, 1
	}
	tone := t.bands(abs(d-0.5), x, y)
	if d < 0.5-0.34 {
		tone = t.ink(cx*2+corner, cy, 31)
	}
	return tone.mix(t.inks[0], 0.06*noise(x*260, y*260, t.seed))
}

// bands is the pattern across a ring, at a distance from its middle. Its colours drift over the picture.
func (t tiling) bands(d, x, y float32) rgb {
	place := noise(x*t.drift, y*t.drift, t.seed+5) * 2 * float32(len(t.inks))
	first := int(place)
	fade := step(0.35, 0.65, place-float32(first))
	ink := func(i int) rgb {
		one, next := (first+i)%(len(t.inks)-1), (first+i+1)%(len(t.inks)-1)
		return t.inks[1+one].mix(t.inks[1+next], fade)
	}
	switch {
	case d < 0.035:
		return t.inks[0]
	case d < 0.12:
		return ink(0)
	case d < 0.15:
		return t.inks[0]
	case d < 0.21:
		return ink(1)
	case d < 0.235:
		return t.inks[0]
	case d < 0.255:
		return ink(2)
	}
	return t.inks[0]
}

func (t tiling) ink(x, y int, salt uint32) rgb {
	return t.inks[1+int(hash2(x, y, t.seed+salt)*float32(len(t.inks)-1)*0.999)]
}
