package paint

import "math/rand/v2"

// Landscape paints the scenery that the words of the prompt steer.
func Landscape(v Values) Artifact {
	return picture(v.Text("format"), func() *canvas {
		w, h := v.Size()
		if v.Text("quality") != "fine" {
			return paintScene(newScene(v), newCanvas(w, h))
		}
		return paintScene(newScene(v), newCanvas(2*w, 2*h)).halve()
	})
}

// scene is everything that is decided before the first stroke.
type scene struct {
	mood
	rnd      *rand.Rand
	seed     uint32
	octaves  int // more give finer detail
	horizon  float32
	place    string // mountains, sea, desert, forest or snow
	lightX   float32
	hasWater bool
	mirror   bool
	clouds   float32 // share of the sky that they cover
	snowing  bool
	raining  bool
	aurora   bool
	ranges   []hills
}

// steering is a choice, and the words of a prompt that ask for it.
type steering struct {
	name string
	cues []string
}

// places and hours are the words that steer a scene. The first match wins.
var (
	places = []steering{
		{"desert", []string{"desert", "dune", "sand", "sahara", "arid"}},
		{"sea", []string{"sea", "ocean", "beach", "coast", "island", "wave", "surf", "sail", "sailing", "boat", "harbour", "harbor", "ship"}},
		{"forest", []string{"forest", "wood", "woodland", "jungle", "pine", "tree", "grove"}},
		{"snow", []string{"snow", "snowy", "winter", "ice", "icy", "arctic", "frozen", "glacier", "ski"}},
	}
	hours = []steering{
		{"night", []string{"night", "midnight", "moon", "moonlit", "moonlight", "star", "starry", "aurora", "dark"}},
		{"sunset", []string{"sunset", "evening", "golden", "orange", "sundown"}},
		{"dawn", []string{"dawn", "sunrise", "morning", "mist", "misty", "fog", "pink", "pastel"}},
		{"dusk", []string{"dusk", "twilight", "gloaming", "purple", "violet"}},
		{"day", []string{"day", "noon", "sunny", "summer", "blue", "bright"}},
	}
)

func newScene(v Values) *scene {
	prompt := v.Text("prompt")
	seed := v.seed()
	s := &scene{
		rnd: rand.New(rand.NewPCG(seed, 4)), seed: uint32(seed ^ seed>>32), octaves: 3 + int(v.Integer("steps"))/10,
		horizon: float32(v.Number("horizon")), place: steer(prompt, places, "mountains"), mirror: v.flag("reflections"),
	}
	if v.Text("quality") == "draft" {
		s.octaves = 3
	}
	hour := steer(prompt, hours, []string{"day", "sunset", "dawn", "sunset", "dusk"}[s.rnd.IntN(5)])
	if asked := v.Text("time_of_day"); asked != "auto" {
		hour = asked
	}
	s.mood = moods[hour]
	s.clouds = 0.28 + 0.3*s.rnd.Float32()
	if mentions(prompt, "clear", "cloudless") {
		s.clouds = 0
	}
	if mentions(prompt, "cloud", "cloudy", "overcast") {
		s.clouds = 0.7
	}
	if mentions(prompt, "storm", "stormy", "thunder", "rain", "rainy", "tempest") {
		s.mood, s.clouds, s.raining = s.gloomy(), 0.95, s.place != "snow"
	}
	s.snowing = s.place == "snow" && mentions(prompt, "snowing", "storm", "stormy", "blizzard", "falling", "snowfall", "flake")
	s.aurora = mentions(prompt, "aurora", "northern", "borealis")
	s.hasWater = s.place == "sea" || s.place == "mountains" || mentions(prompt, "lake", "river", "water", "sea", "reflection")
	s.lightX = 0.2 + 0.6*s.rnd.Float32()
	return s
}

func steer(prompt string, choices []steering, otherwise string) string {
	for _, choice := range choices {
		if mentions(prompt, choice.cues...) {
			return choice.name
		}
	}
	return otherwise
}

// paintScene paints from the back to the front, as a painter does.
func paintScene(s *scene, c *canvas) *canvas {
	s.lightX *= c.aspect
	s.lightY = min(s.lightY, s.horizon-0.03)
	s.paintSky(c)
	s.paintClouds(c)
	s.plan(c)
	switch {
	case s.hasWater:
		s.paintRanges(c, s.ranges, s.horizon)
		s.paintWater(c)
	case s.place == "snow":
		s.paintRanges(c, s.ranges, s.horizon)
		s.paintSnowfield(c)
	default:
		s.paintRanges(c, s.ranges, 1)
	}
	s.paintForeground(c)
	s.paintWeather(c)
	s.finish(c)
	return c
}

// finish darkens the corners a little and lifts the contrast.
func (s *scene) finish(c *canvas) {
	for y := range c.h {
		v := (float32(y)/float32(c.h) - 0.5) * 2
		for x := range c.w {
			u := (float32(x)/float32(c.w) - 0.5) * 2
			dark := 1 - 0.16*step(0.5, 2, u*u+v*v)
			p := &c.pix[y*c.w+x]
			p.r, p.g, p.b = curve(p.r*dark), curve(p.g*dark), curve(p.b*dark)
		}
	}
}

// curve is a gentle contrast curve.
func curve(v float32) float32 {
	v = min(max(v, 0), 1)
	return v + 0.18*(smooth(v)-v)
}
