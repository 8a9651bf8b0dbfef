package paint

// paintForeground frames the scene: a bank with grass, and tall trees at one side.
func (s *scene) paintForeground(c *canvas) {
	switch s.place {
	case "sea":
		s.paintBirds(c)
		if s.rnd.IntN(3) > 0 {
			s.paintBoat(c)
		}
	case "desert":
		s.paintBirds(c)
	case "forest":
	default:
		s.paintBirds(c)
		s.paintBank(c)
	}
}

func (s *scene) paintBank(c *canvas) {
	left := s.lightX > c.aspect/2
	rise := func(x float32) float32 {
		if !left {
			x = c.aspect - x
		}
		return 0.985 - 0.11*step(0.62*c.aspect, 0, x) - 0.05*step(0.3*c.aspect, 0, x)
	}
	dark := s.near.mix(s.far, 0.04)
	bank := hills{depth: 1, foot: 2, colour: dark, seed: s.seed + 9000, crest: make([]float32, c.w)}
	for x := range bank.crest {
		fx := float32(x) / float32(c.h)
		bank.crest[x] = rise(fx) - 0.02*fractal(fx*6, 1, 4, bank.seed)
		if s.place != "snow" {
			bank.crest[x] -= 0.010 * noise(fx*170, 2, bank.seed) * noise(fx*23, 4, bank.seed) // grass
		}
	}
	if s.place == "snow" {
		bank.colour = s.snow.mix(s.sky[1], 0.28)
	}
	s.paintRanges(c, []hills{bank}, 1)
	for range 3 + s.rnd.IntN(3) {
		x := s.rnd.Float32() * s.rnd.Float32() * 0.34 * c.aspect
		if !left {
			x = c.aspect - x
		}
		s.paintConifer(c, x, rise(x)+0.01, 0.26+0.34*s.rnd.Float32(), dark)
	}
}

// paintConifer paints one tall tree, with ragged branches and, in winter, snow on them.
func (s *scene) paintConifer(c *canvas, x, foot, tall float32, dark rgb) {
	size := float32(c.h)
	tree := ragged{seed: s.seed + uint32(x*5000), pixels: 2 * tall * size}
	for y := int((foot - tall) * size); y <= int(foot*size); y++ {
		for px := int((x - tall*0.24) * size); px <= int((x+tall*0.24)*size); px++ {
			var cover, snow float32
			for i := range 4 { // four samples a pixel: branches are steep and fine
				up := (foot - (float32(y)+0.25+0.5*float32(i/2))/size) / tall
				across := ((float32(px)+0.25+0.5*float32(i%2))/size - x) / tall
				one, top := tree.at(across, up)
				cover, snow = cover+one/4, snow+top/4
			}
			tone := dark
			if s.place == "snow" {
				tone = tone.mix(s.snow, 0.85*snow)
			}
			c.blend(px, y, tone, cover)
		}
	}
}

// ragged is a conifer that stands close: every tier of branches hangs and frays in its own way.
type ragged struct {
	seed   uint32
	pixels float32 // its height
}

// at is how much of a place the tree covers, and how much of that lies on top of a branch.
func (r ragged) at(across, up float32) (cover, top float32) {
	if up < 0 || up > 1 {
		return 0, 0
	}
	stem := min(max((0.012*(1-up)-abs(across))*r.pixels+0.5, 0), 1)
	if up < 0.06 {
		return stem, 0
	}
	side := 0
	if across > 0 {
		side = 1
	}
	tiers := (up+abs(across)*0.42)*19 + 0.5*float32(side)
	number := floor(tiers)
	drop := tiers - number
	reach := (1 - up) * 0.20 * (0.60 + 0.55*hash2(int(number), side, r.seed))
	reach *= 1 - 0.62*drop
	reach -= 0.020 * noise(across*110, up*170, r.seed)
	cover = min(max((reach-abs(across))*r.pixels+0.5, 0), 1)
	return max(stem, cover), step(0.35, 0.75, drop) * step(0.2, 0.5, noise(across*30, up*40, r.seed+1))
}

func (s *scene) paintBirds(c *canvas) {
	if s.moon || s.raining || s.snowing {
		return
	}
	dark := s.near.mix(s.far, 0.25)
	cx, cy := s.rnd.Float32()*c.aspect, s.horizon*(0.25+0.3*s.rnd.Float32())
	for range 4 + s.rnd.IntN(6) {
		x, y := cx+0.14*float32(s.rnd.NormFloat64()), cy+0.045*float32(s.rnd.NormFloat64())
		span := 0.006 + 0.010*s.rnd.Float32()
		for i := range 49 {
			t := float32(i)/24 - 1
			wing := abs(t)
			c.disc(x+t*span, y-span*(0.9*wing-1.1*wing*wing), span*0.10*(1.15-wing), dark, 0.55)
		}
	}
}

// paintBoat paints a small sailing boat and its image in the water.
func (s *scene) paintBoat(c *canvas) {
	size := float32(c.h)
	x, y := c.aspect*(0.2+0.6*s.rnd.Float32()), s.horizon+0.05+0.05*s.rnd.Float32()
	tall := 0.05 + 0.9*(y-s.horizon)
	sail, hull := s.light.mix(s.cloud[1], 0.5), s.near
	for py := int((y - tall) * size); py <= int((y+tall)*size); py++ {
		for px := int((x - tall) * size); px <= int((x+tall)*size); px++ {
			across, up := ((float32(px)+0.5)/size-x)/tall, (y-(float32(py)+0.5)/size)/tall
			alpha := float32(1)
			if up < 0 {
				alpha = 0.35
				across += 0.03 * sin(up*45)
				up = -up
			}
			soft := tall * size
			c.blend(px, py, sail.mix(s.sky[2], 0.25*step(-0.02, 0.02, -across)), alpha*sailAt(across, up, soft))
			c.blend(px, py, hull, alpha*hullAt(across, up, soft))
		}
	}
}

// sailAt covers two sails: a large one behind the mast, a small one before it.
func sailAt(across, up, soft float32) float32 {
	edge := min(up-0.17, (0.97-up)*0.52-across, across-0.015)
	if across < 0 {
		edge = min(up-0.2, (0.85-up)*0.42+across, -across-0.015)
	}
	return min(max(edge*soft+0.5, 0), 1)
}

func hullAt(across, up, soft float32) float32 {
	edge := min(0.13-up, up+0.01, 0.36+up*0.9-abs(across))
	mast := min(0.98-up, up, 0.012-abs(across))
	return min(max(max(edge, mast)*soft+0.5, 0), 1)
}

// paintWeather lets it snow or rain, and lightning strike.
func (s *scene) paintWeather(c *canvas) {
	if s.snowing {
		for range int(900 * c.aspect) {
			near := s.rnd.Float32() * s.rnd.Float32()
			c.disc(s.rnd.Float32()*c.aspect, s.rnd.Float32(), 0.0012+0.005*near, colour("#ffffff"), 0.35+0.4*s.rnd.Float32())
		}
	}
	if !s.raining {
		return
	}
	s.paintLightning(c, s.lightX, 0.06, 0.5)
	for range int(1500 * c.aspect) {
		x, y, long := s.rnd.Float32()*c.aspect*1.1, s.rnd.Float32(), 0.014+0.03*s.rnd.Float32()
		alpha := 0.05 + 0.13*s.rnd.Float32()
		for i := range 24 {
			t := float32(i) / 23
			c.disc(x-t*long*0.22, y+t*long, 0.0008, s.cloud[1], alpha)
		}
	}
}

func (s *scene) paintLightning(c *canvas, x, y, width float32) {
	for y < s.horizon {
		heading := (s.rnd.Float32() - 0.5) * 2.2
		for range 10 + s.rnd.IntN(16) {
			x, y = x+heading*0.001, y+0.001
			c.disc(x, y, 0.014, colour("#b9c8ff"), 0.022*width)
			c.disc(x, y, 0.0020*width+0.0006, colour("#ffffff"), 0.9)
		}
		if width > 0.3 && s.rnd.IntN(7) == 0 {
			s.paintLightning(c, x, y, width*0.4)
		}
	}
}
