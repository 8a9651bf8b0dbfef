package paint

import (
	"fmt"
	"image/png"
	"strings"
)

// palettes are colours that go well together; the first one is the ground.
const palettes = "#f4efe6 #264653 #2a9d8f #e9c46a #f4a261 #e76f51|#0d1b2a #e0e1dd #778da9 #ffb703 #fb8500 #415a77|" +
	"#fdf6ec #1d3557 #457b9d #a8dadc #e63946 #f1b5a0|#14120f #f2e8cf #bc4749 #a7c957 #6a994e #e8a33d|#10002b #e0aaff #9d4edd #ff9e80 #ffd6a5 #5a189a"

// Abstract paints ink in water: noise that is bent by noise, twice, and cut into bands.
func Abstract(v Values) Artifact {
	rnd := v.random()
	names, seed, density := deal(rnd, palettes)(), rnd.Uint32(), float32(v.Number("density"))
	if given, ok := v["palette"].([]any); ok {
		names = strings.Trim(fmt.Sprint(given), "[]")
	}
	p, inks := &picture{samples: 2}, colours(names)
	p.w, p.h = v.Size()
	p.paint = func(x, y float32) rgb {
		u := fractal(x*1.4, y*1.4, 3, seed, false)
		v := fractal(x*1.4+4*u, y*1.4+2, 3, seed+1, false)
		bend := fractal(x+3*v, y+3*u, 3, seed+2, false)
		lines := bend * (8 + 60*density)
		edge := step(0.5, 0.3, abs(lines-floor(lines)-0.5))
		return inks[0].mix(gradient(inks[1:], (u+bend)*2.4-1.9+v), edge*(0.25+0.75*step(0.25, 0.6, v))).mix(rgb{}, 0.1*(1-bend)*edge)
	}
	return p.file(v.Text("format"), png.BestSpeed)
}
