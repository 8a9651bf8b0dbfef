package paint

// hills is one layer of the scene: a line of mountains, dunes or woods, with the height of its crest in
// each column.
type hills struct {
	crest  []float32 // y of each column
	depth  float32   // 0 = far, 1 = near
	foot   float32   // y at which mist has swallowed it
	colour rgb
	snow   float32 // how far down snow lies below the crest
	rough  float32 // contrast of its slopes
	sand   bool
	trees  float32 // height of its trees; 0 = none
	seed   uint32
}

// plan decides the layers for the place.
func (s *scene) plan(c *canvas) {
	switch s.place {
	case "sea":
		for i := range 2 {
			t := float32(i)
			s.addRange(c, hills{depth: 0.1 + 0.25*t, foot: s.horizon + 0.02, rough: 0.5, colour: s.far.mix(s.near, 0.12+0.3*t)},
				func(x float32, seed uint32) float32 {
					island := step(0.52, 0.75, noise(x*1.1+3*t, 4, seed))
					return s.horizon + 0.004 - island*(0.03+0.11*fractal(x*3, 1, s.octaves+1, seed+1))
				})
		}
	case "desert":
		s.planMesas(c)
		s.planDunes(c)
	case "forest":
		s.planWoods(c)
	default:
		s.planMountains(c)
	}
}

func (s *scene) addRange(c *canvas, h hills, crest func(x float32, seed uint32) float32) {
	h.seed = s.seed + 1000*uint32(len(s.ranges)+1)
	h.crest = make([]float32, c.w)
	for x := range h.crest {
		h.crest[x] = crest((float32(x)+0.5)/float32(c.h), h.seed)
	}
	s.ranges = append(s.ranges, h)
}

func (s *scene) planMountains(c *canvas) {
	const layers = 6
	snow := float32(0.10)
	if s.place == "snow" {
		snow = 0.4
	}
	peak := s.rnd.Float32() * c.aspect
	for i := range layers {
		t := float32(i) / (layers - 1)
		h := hills{
			depth: t, foot: s.horizon + 0.015, rough: 1 - 0.4*t, colour: s.far.mix(s.near, t*t*0.75+0.10*t),
			snow: snow * step(0.5, 0.1, t),
		}
		if s.place == "snow" {
			h.snow, h.rough, h.colour = snow, 1-0.6*t, h.colour.mix(s.sky[0], 0.4)
		}
		if i >= 3 {
			h.trees = []float32{0.011, 0.021, 0.036}[i-3]
		}
		high := lerp(0.34, 0.030, step(0, 1.05, t))
		s.addRange(c, h, func(x float32, seed uint32) float32 {
			freq := lerp(1.25, 2.6, t)
			sharp := ridged(x*freq, 3.1, s.octaves+2, seed)
			soft := fractal(x*freq*1.3, 8.2, s.octaves+1, seed+5)
			swell := 0.45 + 0.75*noise(x*0.9, 2.2, seed+9)
			if i == 1 {
				swell *= 0.75 + 0.8*exp(-(x-peak)*(x-peak)*9)
			}
			return s.horizon + 0.002 - high*lerp(sharp, soft, step(0.25, 0.75, t))*swell*1.15
		})
	}
}

func (s *scene) planWoods(c *canvas) {
	const layers = 6
	s.addRange(c, hills{depth: 0, foot: s.horizon, rough: 0.6, colour: s.far}, func(x float32, seed uint32) float32 {
		return s.horizon - 0.05 - 0.3*ridged(x*1.3, 3, s.octaves+2, seed)*(0.5+0.6*noise(x, 2, seed))
	})
	for i := range layers {
		t := float32(i+1) / layers
		s.addRange(c, hills{depth: t, foot: s.horizon + 0.02 + 0.30*t, colour: s.far.mix(s.near, t*0.95), trees: 0.025 + 0.20*t*t, rough: 0.2},
			func(x float32, seed uint32) float32 {
				return s.horizon - 0.06 + (1.04-s.horizon)*t*t - 0.10*(1-0.5*t)*(fractal(x*(2.2-t), 3, 3, seed)-0.4)
			})
	}
}

func (s *scene) planMesas(c *canvas) {
	s.addRange(c, hills{depth: 0.15, foot: s.horizon + 0.02, rough: 0.5, colour: s.far.mix(s.sand, 0.35)},
		func(x float32, seed uint32) float32 {
			n := fractal(x*2.1, 4, 2, seed)
			mesa := step(0.50, 0.54, n)*0.07 + step(0.62, 0.65, n)*0.04 + 0.012*fractal(x*9, 2, 3, seed+3)
			return s.horizon - mesa
		})
}

func (s *scene) planDunes(c *canvas) {
	const layers = 5
	for i := range layers {
		t := float32(i) / (layers - 1)
		s.addRange(c, hills{depth: 0.25 + 0.75*t, foot: 1.4, sand: true, colour: s.mist.mix(s.sand, 0.35+0.65*t)},
			func(x float32, seed uint32) float32 {
				wave := abs(fractal(x*lerp(2.2, 0.8, t)+3*t, 6.5, 2, seed)*2 - 1) // sharp valleys turned upside down
				return s.horizon + 0.01 + 0.30*t*t - lerp(0.05, 0.20, t)*(1-1.5*wave)*0.8
			})
	}
}

// paintRanges paints layers, the far ones first, down to the row at bottom.
func (s *scene) paintRanges(c *canvas, ranges []hills, bottom float32) {
	size := float32(c.h)
	for i := range ranges {
		h := &ranges[i]
		for x := range c.w {
			top := h.crest[x] - h.trees*1.25
			for y := max(int(top*size)-1, 0); y < c.h && float32(y) <= bottom*size+1; y++ {
				cover := min(max(float32(y)+0.5-h.crest[x]*size+0.5, 0), 1)
				fx, fy := (float32(x)+0.5)/size, (float32(y)+0.5)/size
				if cover < 1 && h.trees > 0 {
					cover = max(cover, h.treeAt(fx, fy, size))
				}
				if cover == 0 || s.hidden(ranges[i+1:], x, fy, size) {
					continue
				}
				p := &c.pix[y*c.w+x]
				*p = p.mix(s.slope(h, fx, fy, fy-h.crest[x]), cover)
			}
		}
	}
}

// hidden reports whether a nearer layer covers the place anyway.
func (s *scene) hidden(nearer []hills, x int, y, size float32) bool {
	for i := range nearer {
		if y > nearer[i].crest[x]+1.5/size {
			return true
		}
	}
	return false
}

// slope is the colour of a layer at a place that lies below its crest.
func (s *scene) slope(h *hills, x, y, below float32) rgb {
	tone := h.colour
	if h.sand {
		tone = s.dune(h, x, below)
	} else if h.rough > 0.25 && below > 0 {
		tone = s.rock(h, tone, x, below)
	} else if h.trees > 0 {
		tone = tone.mix(s.near, 0.25*noise(x*140, y*90, h.seed))
	}
	mist := step(0, 1, (y-(h.foot-0.22))/0.22)
	tone = tone.mix(s.mist, mist*mist*(1-h.depth)*0.85)
	near := exp(-hypot((x-s.lightX)*0.9, y-s.lightY) * 3.2)
	return tone.mix(s.light, near*0.34*s.brightness*(1-0.7*h.depth))
}

// rock shades a slope by the gullies that run down from the crest, and lays snow on its heights.
func (s *scene) rock(h *hills, tone rgb, x, below float32) rgb {
	side := min(max((x-s.lightX)*1.2, -0.22), 0.22)
	u, v := x*9+below*2.5, below*11
	here := ridged(u, v, s.octaves, h.seed+40)
	there := ridged(u+side, v+0.10, max(s.octaves-1, 2), h.seed+40)
	light := min(max((here-there)*1.9, -0.5), 0.5) * h.rough * s.shadowDepth
	if h.snow > 0 {
		line := h.snow * (0.35 + 1.1*fractal(x*5, below*4, 3, h.seed+60))
		cover := step(line, line*0.72, below+0.05*(0.5-here)) * 0.9
		shade := s.snow.mix(tone, min(max(0.28-light*1.5, 0), 0.75))
		tone = tone.mix(shade.mix(s.mist, 0.18*(1-h.depth)), cover)
	}
	if light > 0 {
		return tone.mix(s.light.mix(s.mist, 0.5), light*0.55)
	}
	return tone.mix(s.near, -light*0.55)
}

// dune shades sand: a lit flank, a shaded one, and the ripples of the wind.
func (s *scene) dune(h *hills, x, below float32) rgb {
	flank := fractal(x*2.6-below*3.4, below*1.6, 2, h.seed+70)
	shade := step(0.46, 0.56, flank) * step(0, 0.05, below)
	ripple := 0.5 + 0.5*sin(below*420*(1.3-h.depth*0.5)+14*fractal(x*5, below*9, 2, h.seed+80))
	tone := h.colour.mix(s.light, 0.16*(1-shade)+0.05*ripple*h.depth)
	return tone.mix(s.near.mix(s.sand, 0.42), shade*0.62)
}

// treeAt is how much of a pixel the conifers on a crest cover.
func (h *hills) treeAt(x, y, size float32) float32 {
	gap := h.trees * 0.30
	cell := int(floor(x / gap))
	best := float32(0)
	for i := cell - 2; i <= cell+2; i++ {
		centre := (float32(i) + 0.5 + 0.8*(hash2(i, 1, h.seed)-0.5)) * gap
		column := min(max(int(centre*size), 0), len(h.crest)-1)
		tall := h.trees * (0.45 + 0.75*hash2(i, 2, h.seed))
		if hash2(i/7, 3, h.seed) < 0.22 {
			tall *= 0.35 // a clearing
		}
		best = max(best, conifer((x-centre)/tall, (h.crest[column]+0.004-y)/tall, tall*size))
	}
	return best
}

// conifer is how much of a pixel a tree of height 1 covers, at a place that lies across from its stem and up from
// its foot. pixels is its height on the canvas.
func conifer(across, up, pixels float32) float32 {
	if up < 0 || up > 1.02 {
		return 0
	}
	tiers := up * 9
	drop := tiers - floor(tiers) // each tier of branches is widest at its bottom
	half := (1-up)*0.20*(0.62+0.55*(1-drop)) + 0.008
	return min(max((half-abs(across))*pixels+0.5, 0), 1)
}
