package paint

// paintWater fills what lies below the horizon with water that mirrors what lies above.
func (s *scene) paintWater(c *canvas) {
	size := float32(c.h)
	shore := int(s.horizon * size)
	for y := shore; y < c.h; y++ {
		near := (float32(y)+0.5)/size - s.horizon // from the shore towards us
		depth := 0.10 / (near + 0.012)
		for x := range c.w {
			fx := (float32(x) + 0.5) / size
			wave := fractal((fx-c.aspect/2)*depth*5+40, depth*26, 3, s.seed+300) - 0.5
			c.pix[y*c.w+x] = s.waterAt(c, fx, near, wave)
		}
	}
	s.paintGlitter(c)
}

// waterAt mixes the mirrored scene with the colour of the water; the steeper we look down, the more.
func (s *scene) waterAt(c *canvas, fx, near, wave float32) rgb {
	size := float32(c.h)
	sway := wave * (0.010 + near*0.10)
	lift := wave * (0.020 + near*0.16)
	mx := min(max(int((fx+sway*0.35)*size), 0), c.w-1)
	my := min(max(int((s.horizon-near*1.25-abs(lift))*size), 0), int(s.horizon*size)-1)
	seen := c.pix[max(my, 0)*c.w+mx]
	clear := float32(0.86)
	if !s.mirror {
		clear = 0.25
	}
	if s.place == "sea" {
		clear *= 0.72
	}
	deep := s.water.mix(s.sky[2], 0.12+0.25*max(wave, 0))
	tone := deep.mix(seen, clear*(1-0.55*step(0, 0.45, near)))
	tone = tone.mix(s.sky[3], 0.30*step(0.012, 0, near)) // the bright line of the far shore
	return tone.add(s.light, 0.16*step(0.16, 0.36, wave)*s.brightness)
}

// paintGlitter lays the path of light on the water.
func (s *scene) paintGlitter(c *canvas) {
	if s.brightness < 0.4 {
		return
	}
	for range int(1500 * c.aspect) {
		near := s.rnd.Float32()
		near = near * near * (1 - s.horizon)
		spread := 0.012 + 0.16*near
		x := s.lightX + spread*float32(s.rnd.NormFloat64())
		long := (0.002 + 0.030*near) * (0.4 + s.rnd.Float32())
		s.streak(c, x, s.horizon+near, long, 0.0007+0.0035*near, 0.55*s.brightness*(0.3+0.7*s.rnd.Float32()))
	}
}

// streak is a short level stroke of light with soft ends.
func (s *scene) streak(c *canvas, x, y, long, thick, alpha float32) {
	size := float32(c.h)
	for py := int((y - thick) * size); py <= int((y+thick)*size); py++ {
		for px := int((x - long) * size); px <= int((x+long)*size); px++ {
			dx, dy := ((float32(px)+0.5)/size-x)/long, ((float32(py)+0.5)/size-y)/max(thick, 0.7/size)
			c.blend(px, py, s.light, alpha*max(1-dx*dx-dy*dy, 0))
		}
	}
}

// paintSnowfield fills what lies below the horizon with drifts of snow.
func (s *scene) paintSnowfield(c *canvas) {
	size := float32(c.h)
	for y := int(s.horizon * size); y < c.h; y++ {
		near := (float32(y)+0.5)/size - s.horizon
		for x := range c.w {
			fx := (float32(x) + 0.5) / size
			u, v := (fx-c.aspect/2)*1.6/(0.25+near*3)+20, near*16/(0.25+near)
			drift := fractal(u, v, s.octaves+1, s.seed+320)
			light := fractal(u+0.10, v+0.22, s.octaves, s.seed+320)
			shade := min(max(0.16+(light-drift)*1.5, 0), 0.5)
			tone := s.snow.mix(s.sky[1], shade).mix(s.mist, 0.5*step(0.10, 0, near))
			c.pix[y*c.w+x] = tone.mix(s.light, 0.25*exp(-abs(fx-s.lightX)*2.5)*s.brightness)
		}
	}
}
