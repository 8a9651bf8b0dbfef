package paint

import (
	"image/png"
	"math/rand/v2"
)

// Landscape paints the scenery that the words of the prompt steer.
func Landscape(v Values) Artifact {
	p, detail := &picture{}, 3+int(v.Integer("steps"))/10
	switch v.Text("quality") {
	case "draft":
		detail = 2
	case "fine":
		p.samples = 2
	}
	p.w, p.h = v.Size()
	p.paint = newScene(v, p, float32(v.Number("horizon")), detail).at
	return p.file(v.Text("format"), png.BestSpeed)
}

// PaperSize is the size of a print in pixels, at 300 dots an inch.
func PaperSize(paper string) (w, h int) {
	size, known := map[string][2]int{"a5": {1748, 2480}, "a4": {2480, 3508}, "a3": {3508, 4961}, "a3-plus": {3900, 5700}}[paper]
	if !known {
		return 1240, 1748
	}
	return size[0], size[1]
}

// Print paints the same scenery as a poster of flat colours, a third as fine as its paper.
func Print(v Values) Artifact {
	p, frame := &picture{block: 3}, v["frame"].(Values)
	p.w, p.h = PaperSize(v.Text("paper"))
	s, aspect, mount := newScene(v, p, 0.6, 0), float32(p.w)/float32(p.h), colours(frame.Text("colour"))[0]
	margin := aspect * float32(frame.Integer("percent")) / 100
	p.paint = func(x, y float32) rgb {
		if min(x, y, aspect-x, 1-y) < margin {
			return mount
		}
		return s.at(x, y)
	}
	return p.file("png", png.NoCompression)
}

// light is what an hour of the day does to a scene. Its colours are those of the sky from the zenith to the horizon, of
// the sun or moon, far and near land, mist, clouds in shade and in light, snow, sand, and water.
type light struct {
	colours             string
	height, stars, glow float32 // height is the y of the sun or moon
}

var (
	hourly = map[string]light{
		"day":    {"#2866ae #5b98d2 #a9d0ea #e9f1ee #fff7dc #93b3d0 #27452f #d5e4ec #a9bccf #ffffff #f7fafc #e3b778 #1d5274", 0.16, 0, 0.55},
		"dawn":   {"#4c74ad #9a9fce #f0b5ab #fee9c6 #fff2d0 #b9a6c8 #2c3a4e #f6d3c4 #8f8cb8 #ffdcc8 #ffe9e2 #e0a488 #48608a", 0.50, 0, 0.8},
		"sunset": {"#262c5e #7b4a80 #e67a5a #ffcf86 #fff1c4 #b26f86 #1d1730 #f2a173 #5c3f6e #ffb47c #ffd3c0 #cf7d52 #3a2a55", 0.52, 0, 1},
		"dusk":   {"#10183a #343a74 #95608f #f3a98c #ffe2c2 #625888 #0f1126 #a7728f #2b2c58 #c07f96 #c9b4cf #7d5768 #1d2148", 0.62, 0.5, 0.7},
		"night":  {"#040a20 #0b1c42 #1c3b68 #48708f #f6f3e2 #2e4c6e #050b17 #35587a #0f2142 #5d7b9c #9fb6cf #3c4864 #081a36", 0.20, 1, 0.45},
	}
	hours = [][2]string{
		{"night", "night midnight moon moonlit moonlight star starry aurora dark"},
		{"sunset", "sunset evening golden orange sundown"},
		{"dawn", "dawn sunrise morning mist misty fog pink pastel"},
		{"dusk", "dusk twilight gloaming purple violet"},
		{"day", "day noon sunny summer blue bright"},
	}
	places = [][2]string{
		{"desert", "desert dune sand sahara arid"},
		{"sea", "sea ocean beach coast island wave surf sail sailing boat harbour harbor ship"},
		{"forest", "forest wood woodland jungle pine tree grove"},
		{"snow", "snow snowy winter ice icy arctic frozen glacier ski"},
	}
)

// scene is everything that is decided before the first pixel.
type scene struct {
	light
	sky, cloud                              []rgb
	sun, far, near, mist, snow, sand, water rgb
	aspect, columns                         float32 // columns are those that a unit of x has
	horizon, lightX, cover                  float32 // cover is the share of the sky that clouds have
	seed                                    uint32
	detail                                  int // octaves of noise; 0 = flat colours
	wet, mirror                             bool
	place                                   string
	layers                                  []layer // from far to near
	bank                                    layer   // where the painter stands
}

// layer is one line of mountains, dunes or woods.
type layer struct {
	crest       []float32 // y of each column
	foot        float32   // y of its lowest place
	colour      rgb
	mist, rough float32 // how much of it lies at the foot; how uneven the slopes are
	snow        float32 // how far down from the crest it lies
}

func newScene(v Values, p *picture, horizon float32, detail int) *scene {
	prompt, rnd := v.Text("prompt"), v.random()
	hour := steer(prompt, hours, []string{"day", "sunset", "dawn", "sunset", "dusk"}[rnd.IntN(5)])
	if asked := v.Text("time_of_day"); asked != "" && asked != "auto" {
		hour = asked
	}
	s := &scene{
		light: hourly[hour], seed: rnd.Uint32(), aspect: float32(p.w) / float32(p.h), columns: float32(p.h * max(p.samples, 1)), horizon: horizon,
		cover: 0.25 + 0.3*rnd.Float32(), detail: detail, place: steer(prompt, places, "mountains"), mirror: v.flag("reflections") || detail == 0,
	}
	c := colours(s.colours)
	switch {
	case mentions(prompt, "storm stormy thunder rain rainy tempest"):
		s.cover, s.glow, s.stars = 0.95, s.glow/3, 0
		for i := range c {
			grey := c[i].r*0.3 + c[i].g*0.5 + c[i].b*0.2
			c[i] = c[i].mix(rgb{grey * 0.5, grey * 0.56, grey * 0.64}, 0.7)
		}
	case mentions(prompt, "cloud cloudy overcast"):
		s.cover = 0.75
	case mentions(prompt, "clear cloudless"):
		s.cover = 0
	}
	s.sky, s.sun, s.far, s.near, s.mist, s.cloud, s.snow, s.sand, s.water = c[:4], c[4], c[5], c[6], c[7], c[8:10], c[10], c[11], c[12]
	s.lightX, s.height = (0.2+0.6*rnd.Float32())*s.aspect, min(s.height, horizon-0.05)
	s.wet = s.place == "sea" || s.place == "mountains" || mentions(prompt, "lake river water reflection")
	s.plan(rnd)
	return s
}

// plan lays out the land.
func (s *scene) plan(rnd *rand.Rand) {
	number := 6
	if s.place == "sea" {
		number = 2
	}
	for i := range number {
		t, from, octaves := float32(i)/5, 9*rnd.Float32(), s.detail+3
		l := layer{colour: s.far.mix(s.near, 0.08+0.85*t*t), mist: 0.75 - 0.4*t, rough: 1 - 0.5*t}
		low := (1 - s.horizon) * t * t // how far below the horizon it begins
		var crest func(x float32) float32
		switch s.place {
		case "sea":
			crest = func(x float32) float32 {
				island := step(0.5, 0.75, noise(x*1.1+from, 4, s.seed))
				return s.horizon + 0.004 - island*(0.04+0.12*fractal(x*3+from, t, octaves, s.seed, false))
			}
		case "desert":
			l.colour, l.rough, l.mist = s.sand.mix(s.near, 0.25*t).mix(s.far, 0.4*(1-t)), 0.3, l.mist*0.85
			crest = func(x float32) float32 {
				return s.horizon + 0.9*low - (0.04+0.12*t)*fractal(x*(2.2-t)+from, t, 2, s.seed, true)
			}
		case "forest":
			l.rough = 0.15
			crest = func(x float32) float32 {
				hill := 0.12*fractal(x*1.6+from, t, octaves, s.seed, false) + 0.2*step(0.4, 0, t)
				return s.horizon + 0.8*low - hill - s.trees(x, i)*(0.04+0.2*t*t)
			}
		default:
			l.snow = 0.1 - 0.2*t
			if s.place == "snow" {
				l.colour, l.snow = l.colour.mix(s.snow, 0.35), 0.3
			}
			crest = func(x float32) float32 {
				sharp, soft := fractal(x*(1.3+t)+from, 3, octaves, s.seed, true), fractal(x*2+from, 8, octaves, s.seed, false)
				high := lerp(0.42, 0.07, step(0, 0.9, t)) * (0.5 + 0.7*noise(x*0.9+from, 2, s.seed))
				return s.horizon + 0.003 - high*lerp(sharp, soft, step(0.3, 0.8, t)) - s.trees(x, i)*0.05*step(0.5, 1, t)
			}
		}
		s.layers = append(s.layers, s.shape(l, crest))
	}
	if s.place == "mountains" || s.place == "snow" { // trees stand at the side that the light is not on
		side := step(0.55, 0.45, s.lightX/s.aspect)
		s.bank = s.shape(layer{colour: s.near.mix(s.far, 0.05)}, func(x float32) float32 {
			near := step(0.45, 0, abs(x/s.aspect-side))
			return 0.99 - 0.1*near - 0.02*noise(x*7, 1, s.seed) - 0.008*noise(x*120, 2, s.seed) - s.trees(x*0.4, 40)*0.45*step(0.3, 0.6, near)
		})
	}
}

func (s *scene) shape(l layer, crest func(x float32) float32) layer {
	for x := range int(s.aspect*s.columns) + 2 {
		l.crest = append(l.crest, crest((float32(x)+0.5)/s.columns))
		l.foot = max(l.foot, l.crest[x])
	}
	return l
}

// covers says whether a layer is seen at a place.
func (s *scene) covers(l layer, x, y float32) bool {
	return len(l.crest) > 0 && y >= l.crest[max(min(int(x*s.columns), len(l.crest)-1), 0)]
}

// trees is the height from 0 to 1 of a row of conifers at a place, each with ragged branches.
func (s *scene) trees(x float32, row int) (top float32) {
	x *= 36 - 4*float32(min(row, 5))
	for n := int(floor(x)) - 1; n <= int(floor(x))+1; n++ {
		off := abs(x - float32(n) - hash2(n, row, s.seed))
		top = max(top, (0.45+0.55*hash2(n, row, s.seed+1))*(1-off*1.9)-0.09*(off*9-floor(off*9)))
	}
	return top
}

// at is the colour of a place. The corners are darker, and the contrast is lifted.
func (s *scene) at(x, y float32) rgb {
	c := s.land(x, y)
	switch {
	case s.covers(s.bank, x, y):
		c = s.ground(s.bank, x, y)
	case s.wet && y > s.horizon:
		c = s.lake(x, y)
	}
	u, v := 2*x/s.aspect-1, 2*y-1
	dark := 1 - 0.16*step(0.5, 2, u*u+v*v)
	curve := func(v float32) float32 { return lerp(min(v*dark, 1), smooth(min(v*dark, 1)), 0.18) }
	return rgb{curve(c.r), curve(c.g), curve(c.b)}
}

// land is the nearest layer at a place, or the sky.
func (s *scene) land(x, y float32) rgb {
	for i := len(s.layers) - 1; i >= 0; i-- {
		if s.covers(s.layers[i], x, y) {
			return s.ground(s.layers[i], x, y)
		}
	}
	return s.air(x, y)
}

// ground is the colour of a layer, with light and shade on its slopes.
func (s *scene) ground(l layer, x, y float32) rgb {
	c, mist := l.colour, l.mist*step(l.foot-0.25, l.foot+0.05, y)
	if s.detail == 0 {
		return c.mix(s.mist, mist/2)
	}
	turn, seed := float32(0.02), s.seed+uint32(l.foot*1e4)
	if x > s.lightX {
		turn = -turn
	}
	here, there := fractal(x*14, y*20, s.detail, seed, true), fractal((x+turn)*14, (y-0.01)*20, s.detail, seed, true)
	if depth := y - l.crest[int(x*s.columns)]; l.snow > 0 {
		c = c.mix(s.snow, step(l.snow, l.snow*0.3, depth+0.12*(here-0.4))*0.9)
	}
	lit := (here - there) * 0.6 * l.rough
	c = c.mix(s.sun, max(lit, 0)).mix(s.near, max(-lit, 0)*1.4)
	return c.mix(s.mist, mist).mix(s.sun, 0.25*s.glow*l.mist*exp(-abs(x-s.lightX)*3))
}

// air is the sky with stars, sun or moon, and clouds.
func (s *scene) air(x, y float32) rgb {
	d := hypot(x-s.lightX, y-s.height)
	c := gradient(s.sky, y/s.horizon).mix(s.sky[3].mix(s.sun, 0.5), exp(-d*2.6)*0.42*s.glow).mix(s.sun, exp(-d*11)*0.5*s.glow)
	if s.stars > 0 {
		const cell = 0.016
		n, m := int(x/cell), int(y/cell)
		bright := max(hash2(n, m, s.seed)-0.86, 0) * 7 * s.stars * step(s.horizon, s.horizon/2, y)
		off := hypot(x/cell-float32(n)-0.3-0.4*hash2(n, m, s.seed+1), y/cell-float32(m)-0.3-0.4*hash2(n, m, s.seed+2))
		c = c.add(rgb{1, 1, 0.93}, bright*bright*step(0.14, 0.02, off))
	}
	c = c.mix(s.sun, step(0.034, 0.034-1.5/s.columns, d)*min(s.glow*3, 1))
	if s.cover == 0 || s.detail == 0 {
		return c
	}
	high := max(s.horizon-y, 0) // clouds are a sheet, seen from below: towards the horizon it gets finer
	u, v := (x-s.aspect/2)*0.45/(high+0.1)+31, 1.26/(high+0.1)
	thick, edge := fractal(u, v, s.detail+1, s.seed+500, false), 0.66-0.34*s.cover
	lit := 0.55 + 2.6*(thick-fractal(u+min(max(s.lightX-x, -0.5), 0.5)/2, v+0.2, s.detail, s.seed+500, false))
	return c.mix(gradient(s.cloud, lit).mix(s.sun, 0.4*s.glow*exp(-d*3)), 0.93*step(edge, edge+0.2, thick)*step(0, 0.1, high))
}

// lake mirrors what lies above the horizon, broken by waves, with a path of light.
func (s *scene) lake(x, y float32) rgb {
	near, clear, wave := y-s.horizon, float32(0.3), float32(0)
	if s.mirror {
		clear = 0.8 - 0.9*near
	}
	if s.detail > 0 {
		wave = fractal(x*5/(0.08+near), 16/(0.05+near), 3, s.seed+9, false) - 0.5
	} else if int(near*120)%2 == 1 {
		wave = 0.12
	}
	seen := s.land(min(max(x+wave*(0.03+near*0.25), 0), s.aspect), max(s.horizon-near*1.1-abs(wave)*(0.02+near*0.15), 0))
	c := s.water.mix(s.sky[2], 0.12+0.5*max(wave, 0)).mix(seen, clear).mix(s.sky[3], 0.3*step(0.012, 0, near))
	off := (x - s.lightX) / (0.03 + 0.3*near)
	return c.add(s.sun, s.glow*0.9*step(0.06, 0.3, wave)*exp(-off*off))
}
