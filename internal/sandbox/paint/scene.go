package paint

import (
	"fmt"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Landscape returns a picture of the scenery that the prompt describes.
func Landscape(v Values) Artifact {
	p, detail := &picture{block: 1, samples: 1}, 3+int(v.Integer("steps"))/10
	switch v.Text("quality") {
	case "draft":
		detail = 2
	case "fine":
		p.samples = 2
	}
	p.w, p.h = v.Size()
	p.paint = newScene(v, p, v.Number("horizon"), detail).colorAt
	return p.toArtifact(v.Text("format"), png.BestSpeed)
}

// PaperSize returns the size of a paper format, such as "a4", in pixels at 300 dots per inch.
func PaperSize(paper string) (w, h int) {
	size := map[string][2]int{"a6": {1240, 1748}, "a5": {1748, 2480}, "a4": {2480, 3508}, "a3": {3508, 4961}, "a3-plus": {3900, 5700}}[paper]
	return size[0], size[1]
}

// Print returns a framed picture, in soft shapes, of the scenery that the prompt describes. It has as many pixels as the paper
// at 300 dots per inch, but the pixels of each block of 4 × 4 have the same color.
func Print(v Values) Artifact {
	p, frame := &picture{block: 4, samples: 1}, v["frame"].(Values)
	p.w, p.h = PaperSize(v.Text("paper"))
	s, aspect, mount := newScene(v, p, 0.6, 1), float64(p.w)/float64(p.h), parseColors(frame.Text("colour"))[0]
	margin := aspect * float64(frame.Integer("percent")) / 100
	p.paint = func(x, y float64) rgb {
		if min(x, y, aspect-x, 1-y) < margin {
			return mount
		}
		return s.colorAt(x, y)
	}
	return p.toArtifact("png", png.NoCompression)
}

// palettes contains sets of matching colors, separated by |. The first color of each set is the background.
const palettes = "#f4efe6 #264653 #2a9d8f #e9c46a #f4a261 #e76f51|#0d1b2a #e0e1dd #778da9 #ffb703 #fb8500 #415a77|#fdf6ec #1d3557 #457b9d #a8dadc #e63946 #f1b5a0"

// Abstract returns a picture that looks like ink in water. It consists of bands of noise, distorted by other noise.
func Abstract(v Values) Artifact {
	rnd, p := v.newRandom(), &picture{block: 1, samples: 2}
	inks, seed, bands := parseColors(shuffleParts(rnd, palettes)()), rnd.Uint32(), 8+60*v.Number("density")
	if given, ok := v["palette"].([]any); ok {
		inks = parseColors(strings.Trim(fmt.Sprint(given), "[]"))
	}
	p.w, p.h = v.Size()
	p.paint = func(x, y float64) rgb {
		stir := fractal(x*1.4, y*1.4, 3, seed, false)
		flow := fractal(x*1.4+4*stir, y*1.4+2, 3, seed+1, false)
		bend := fractal(x+3*flow, y+3*stir, 3, seed+2, false)
		_, band := math.Modf(bend * bands)
		return inks[0].mix(gradient(inks[1:], (stir+bend)*2.4-1.9+flow), smoothStep(0.5, 0.3, math.Abs(band-0.5))*(0.25+0.75*smoothStep(0.25, 0.6, flow)))
	}
	return p.toArtifact(v.Text("format"), png.BestSpeed)
}

// light describes the light at one time of day. colours contains thirteen colors: four sky colors from zenith to horizon,
// and then the colors of the sun or moon, far land, near land, mist, shaded clouds, bright clouds, snow, sand and water.
type light struct {
	colours             string
	height, stars, glow float64 // height is the y coordinate of the sun or moon; stars and glow are strengths from 0 to 1
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
	lands = map[string]land{
		"desert":    {far: 0.05, near: 0.2, drop: 0.9, rough: 0.3, sand: 0.75},
		"sea":       {far: 0.2, near: 0.2, rough: 0.8},
		"forest":    {far: 0.32, near: 0.14, drop: 0.8, rough: 0.15, round: 1, trees: 0.24},
		"snow":      {far: 0.42, near: 0.07, rough: 1, trees: 0.05, snow: 0.45},
		"mountains": {far: 0.42, near: 0.07, rough: 1, trees: 0.05, snow: 0.1},
	}
)

// land describes the terrain of a place.
type land struct {
	far, near    float64 // heights of the farthest and the nearest layer, as fractions of the picture's height
	drop         float64 // vertical distance from the farthest layer to the nearest, as a fraction of the height of the area below the horizon
	rough, round float64 // rough is the amount of detail in the crests, and round is their roundness; both are from 0 to 1
	trees        float64 // height of the trees on the nearest layer; zero means no trees
	snow, sand   float64 // snow is the depth of the snow below the crests; sand is the proportion of sand in the color of the land, from 0 to 1
}

// scene contains the properties of a landscape that are computed before the first pixel is painted.
type scene struct {
	light
	sky, cloud                              []rgb
	sun, far, near, mist, snow, sand, water rgb
	aspect, columns                         float64 // aspect is width divided by height; columns is the number of samples per unit of x
	horizon, lightX, cover                  float64 // cover is the share of the sky that is covered by clouds
	seed                                    uint32
	detail                                  int // number of octaves of noise
	wet, mirror                             bool
	place                                   string
	layers                                  []layer // sorted from far to near
}

// layer is one row of mountains, dunes or woods.
type layer struct {
	crest       []float64 // y coordinate of the crest in each column
	foot        float64   // y coordinate of the crest's lowest point
	colour      rgb
	mist, rough float64 // mist is the strength of the mist at the foot of the slopes; rough is their roughness
	snow        float64 // depth of the snow below the crest
}

func newScene(v Values, p *picture, horizon float64, detail int) *scene {
	prompt, rnd := v.Text("prompt"), v.newRandom()
	hour := v.Text("time_of_day")
	if _, known := hourly[hour]; !known {
		hour = chooseName(prompt, hours, []string{"day", "sunset", "dawn", "sunset", "dusk"}[rnd.IntN(5)])
	}
	s := &scene{
		light: hourly[hour], seed: rnd.Uint32(), aspect: float64(p.w) / float64(p.h), columns: float64(p.h * p.samples), horizon: horizon,
		cover: 0.25 + 0.3*rnd.Float64(), detail: detail, place: chooseName(prompt, places, "mountains"), mirror: v["reflections"] != false,
	}
	c := parseColors(s.colours)
	if mentionsCue(prompt, "storm stormy thunder rain rainy tempest") {
		s.cover, s.glow, s.stars = 0.95, s.glow/3, 0
		for i := range c {
			c[i] = c[i].mix(rgb{c[i].g * 0.5, c[i].g * 0.56, c[i].g * 0.64}, 0.7)
		}
	}
	s.sky, s.sun, s.far, s.near, s.mist, s.cloud, s.snow, s.sand, s.water = c[:4], c[4], c[5], c[6], c[7], c[8:10], c[10], c[11], c[12]
	s.lightX, s.height = (0.2+0.6*rnd.Float64())*s.aspect, min(s.height, horizon-0.05)
	s.wet = s.place == "sea" || s.place == "mountains" || mentionsCue(prompt, "lake river water reflection")
	s.planLayers(rnd)
	return s
}

// planLayers creates the layers of the land, from far to near.
func (s *scene) planLayers(rnd *rand.Rand) {
	place, lines := lands[s.place], 6
	if s.place == "sea" {
		lines = 2
	}
	octaves := 2 + int(place.rough*float64(s.detail+1))
	for i := range lines {
		t, from := float64(i)/5, 9*rnd.Float64()
		high := lerp(place.far, place.near, smoothStep(0, 0.9, t))
		l := layer{colour: s.far.mix(s.near, 0.08+0.85*t*t).mix(s.sand, place.sand).mix(s.snow, place.snow/2), mist: 0.75 - 0.4*t, rough: place.rough * (1 - 0.5*t), snow: place.snow - 0.2*t}
		for column := range int(s.aspect*s.columns) + 2 {
			x := (float64(column) + 0.5) / s.columns
			sharp, soft := fractal(x*(1.3+t)+from, 3, octaves, s.seed, true), fractal(x*2+from, 8, octaves, s.seed, false)
			top := high * lerp(sharp, soft, max(place.round, smoothStep(0.3, 0.8, t))) * (0.5 + 0.7*noise(x*0.9+from, 2, s.seed))
			if s.place == "sea" { // lowers the land except for some islands
				top *= smoothStep(0.5, 0.75, noise(x*1.1+from, 4, s.seed))
			}
			l.crest = append(l.crest, s.horizon+0.003+place.drop*(1-s.horizon)*t*t-top-s.treeHeight(x, i)*place.trees*t*t)
		}
		l.foot = slices.Max(l.crest)
		s.layers = append(s.layers, l)
	}
}

// treeHeight returns the height of a row of ragged conifers at the position x, as a share of the maximum height of a tree. Rows
// with higher numbers have wider trees.
func (s *scene) treeHeight(x float64, row int) (top float64) {
	x *= 36 - 4*float64(min(row, 5))
	for n := int(math.Floor(x)) - 1; n <= int(math.Floor(x))+1; n++ {
		off := math.Abs(x - float64(n) - hash2(n, row, s.seed))
		top = max(top, (0.45+0.55*hash2(n, row, s.seed+1))*(1-off*1.9)-0.09*(off*9-math.Floor(off*9)))
	}
	return top
}

// colorAt returns the color of the scene at a position. The corners of the picture are darker than its center.
func (s *scene) colorAt(x, y float64) rgb {
	c := s.landColor(x, y)
	if s.wet && y > s.horizon {
		c = s.lakeColor(x, y)
	}
	u, v := 2*x/s.aspect-1, 2*y-1
	return c.mix(rgb{}, 0.16*smoothStep(0.5, 2, u*u+v*v))
}

// landColor returns the color of the nearest layer at a position, or of the sky if there is no layer.
func (s *scene) landColor(x, y float64) rgb {
	for i := len(s.layers) - 1; i >= 0; i-- {
		if l := s.layers[i]; y >= l.crest[max(min(int(x*s.columns), len(l.crest)-1), 0)] {
			return s.groundColor(l, x, y)
		}
	}
	return s.skyColor(x, y)
}

// groundColor returns the color of a layer with light and shade on its slopes.
func (s *scene) groundColor(l layer, x, y float64) rgb {
	c, mist := l.colour, l.mist*smoothStep(l.foot-0.25, l.foot+0.05, y)
	turn, seed := float64(0.02), s.seed+uint32(l.foot*1e4)
	if x > s.lightX {
		turn = -turn
	}
	here, there := fractal(x*14, y*20, s.detail, seed, true), fractal((x+turn)*14, (y-0.01)*20, s.detail, seed, true)
	if depth := y - l.crest[int(x*s.columns)]; l.snow > 0 {
		c = c.mix(s.snow, smoothStep(l.snow, l.snow*0.3, depth+0.12*(here-0.4))*0.9)
	}
	lit := (here - there) * 0.6 * l.rough
	c = c.mix(s.sun, max(lit, 0)).mix(s.near, max(-lit, 0)*1.4)
	return c.mix(s.mist, mist).mix(s.sun, 0.25*s.glow*l.mist*math.Exp(-math.Abs(x-s.lightX)*3))
}

// skyColor returns the color of the sky at (x, y), including the stars, the sun or moon, and the clouds.
func (s *scene) skyColor(x, y float64) rgb {
	d := math.Hypot(x-s.lightX, y-s.height)
	c := gradient(s.sky, y/s.horizon).mix(s.sky[3].mix(s.sun, 0.5), math.Exp(-d*2.6)*0.42*s.glow).mix(s.sun, math.Exp(-d*11)*0.5*s.glow)
	bright := max(hash2(int(x*500), int(y*500), s.seed)-0.997, 0) / 0.003
	c = c.add(rgb{1, 1, 0.93}, bright*bright*s.stars*smoothStep(s.horizon, s.horizon/2, y))
	c = c.mix(s.sun, smoothStep(0.034, 0.034-1.5/s.columns, d)*min(s.glow*3, 1))
	high := max(s.horizon-y, 0) // the clouds are a flat sheet seen from below, so their pattern gets finer toward the horizon
	u, v := (x-s.aspect/2)*0.45/(high+0.1)+31, 1.26/(high+0.1)
	thick, edge := fractal(u, v, s.detail+1, s.seed+500, false), 0.66-0.34*s.cover
	lit := 0.55 + 2.6*(thick-fractal(u+min(max(s.lightX-x, -0.5), 0.5)/2, v+0.2, s.detail, s.seed+500, false))
	return c.mix(gradient(s.cloud, lit).mix(s.sun, 0.4*s.glow*math.Exp(-d*3)), 0.93*smoothStep(edge, edge+0.2, thick)*smoothStep(0, 0.1, high))
}

// lakeColor returns the color of the water at a position. The water reflects the view above the horizon, distorted by waves,
// and has a strip of bright reflections below the sun or moon.
func (s *scene) lakeColor(x, y float64) rgb {
	near, clear := y-s.horizon, 0.3
	if s.mirror {
		clear = 0.8 - 0.9*near
	}
	wave := fractal(x*5/(0.08+near), 16/(0.05+near), 3, s.seed+9, false) - 0.5
	seen := s.landColor(min(max(x+wave*(0.03+near*0.25), 0), s.aspect), max(s.horizon-near*1.1-math.Abs(wave)*(0.02+near*0.15), 0))
	c := s.water.mix(s.sky[2], 0.12+0.5*max(wave, 0)).mix(seen, clear).mix(s.sky[3], 0.3*smoothStep(0.012, 0, near))
	off := (x - s.lightX) / (0.03 + 0.3*near)
	return c.add(s.sun, s.glow*0.9*smoothStep(0.06, 0.3, wave)*math.Exp(-off*off))
}
