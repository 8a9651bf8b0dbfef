package paint

// paintSky lays the gradient, the glow of the light, stars, aurora, and the sun or moon.
func (s *scene) paintSky(c *canvas) {
	size := float32(c.h)
	rows := int(s.horizon*size) + 2
	for y := range min(rows, c.h) {
		fy := (float32(y) + 0.5) / size
		back := s.skyAt(fy / s.horizon)
		for x := range c.w {
			fx := (float32(x) + 0.5) / size
			c.pix[y*c.w+x] = s.lit(back, fx, fy)
		}
	}
	s.paintStars(c)
	if s.aurora {
		s.paintAurora(c)
	}
	s.paintLight(c)
}

// skyAt is the colour of the plain sky, from 0 at the zenith to 1 at the horizon.
func (s *scene) skyAt(t float32) rgb {
	stops := [4]float32{0, 0.42, 0.78, 1}
	for i := range 3 {
		if t <= stops[i+1] || i == 2 {
			u := min(max((t-stops[i])/(stops[i+1]-stops[i]), 0), 1)
			return s.sky[i].mix(s.sky[i+1], u*0.5+smooth(u)*0.5)
		}
	}
	return s.sky[3]
}

// lit adds the glow around the light. It is wider than high, as haze makes it.
func (s *scene) lit(c rgb, x, y float32) rgb {
	d := hypot((x-s.lightX)*0.8, y-s.lightY)
	wide, narrow := exp(-d*2.6)*0.42, exp(-d*11)*0.5
	glow := s.sky[3].mix(s.light, 0.5)
	c = c.mix(glow, wide*s.brightness)
	return c.mix(s.light, narrow*s.brightness)
}

func (s *scene) paintStars(c *canvas) {
	for range int(420 * s.stars * c.aspect) {
		x, y := s.rnd.Float32()*c.aspect, s.rnd.Float32()*s.horizon*0.97
		bright := s.rnd.Float32()
		bright = bright * bright * bright
		tint := colour("#cfe0ff").mix(colour("#fff1d0"), s.rnd.Float32())
		fade := step(s.horizon, s.horizon*0.5, y)
		c.disc(x, y, 0.0007+0.0013*bright, tint, (0.35+0.65*bright)*fade*s.stars)
		if bright > 0.8 {
			c.disc(x, y, 0.006, tint, 0.10)
		}
	}
}

func (s *scene) paintAurora(c *canvas) {
	size := float32(c.h)
	green, violet := colour("#5dffb0"), colour("#9a6bff")
	for x := range c.w {
		fx := float32(x) / size
		for band := range 3 {
			seed := s.seed + uint32(band)*7
			foot := s.horizon * (0.45 + 0.22*float32(band)*0.6 + 0.35*(fractal(fx*1.3, float32(band), 3, seed)-0.5))
			rays := 0.25 + 0.75*noise(fx*26, 3, seed+1)*noise(fx*7, 9, seed+2)*1.6
			tall := s.horizon * (0.22 + 0.3*noise(fx*4, 5, seed+3))
			for y := 0; y < int((foot+0.03)*size) && y < c.h; y++ {
				above := foot - float32(y)/size
				glow := exp(-max(above, 0)/tall*2.6) * step(-0.03, 0.015, above) * rays * 0.62
				p := &c.pix[y*c.w+x]
				*p = p.add(green.mix(violet, min(max(above, 0)/tall, 1)), glow*0.8)
			}
		}
	}
}

// paintLight paints the disc of the sun or the moon.
func (s *scene) paintLight(c *canvas) {
	if s.brightness < 0.2 || s.lightY > s.horizon {
		return
	}
	if !s.moon {
		c.disc(s.lightX, s.lightY, 0.030, s.light, 0.98)
		return
	}
	c.disc(s.lightX, s.lightY, 0.038, s.light, 1)
	for range 9 { // the seas of the moon
		dx, dy := (s.rnd.Float32()-0.5)*0.044, (s.rnd.Float32()-0.5)*0.044
		c.disc(s.lightX+dx, s.lightY+dy, 0.004+0.006*s.rnd.Float32(), colour("#b9bdb8"), 0.28)
	}
}

// paintClouds lays a sheet of clouds over the sky, seen from below: towards the horizon it gets finer.
func (s *scene) paintClouds(c *canvas) {
	if s.clouds == 0 {
		return
	}
	size := float32(c.h)
	seed := s.seed + 500
	edge := 0.64 - 0.36*s.clouds
	for y := range min(int(s.horizon*size)+1, c.h) {
		fy := float32(y) / size
		high := max(s.horizon-fy, 0)
		depth := 0.30 / (high + 0.10)
		fade := step(0, 0.10, high)
		for x := range c.w {
			fx := float32(x) / size
			u, v := (fx-c.aspect/2)*depth*1.5+31, depth*3.4
			warp := noise(u*1.3, v*1.3, seed+9) * 0.6
			d := fractal(u+warp, v*1.25+warp, s.octaves+1, seed)
			alpha := step(edge, edge+0.22, d) * fade
			if alpha < 0.004 {
				continue
			}
			toLight := min(max((s.lightX-fx)*0.5, -0.25), 0.25)
			other := fractal(u+warp+toLight, v*1.25+warp+0.22, max(s.octaves-1, 2), seed)
			bright := min(max(0.55+(d-other)*2.6-(d-edge)*0.9, 0), 1)
			near := exp(-hypot(fx-s.lightX, fy-s.lightY) * 3)
			tone := s.cloud[0].mix(s.cloud[1], bright).mix(s.light, near*0.5*s.brightness)
			p := &c.pix[y*c.w+x]
			*p = p.mix(tone, alpha*0.93)
		}
	}
}
