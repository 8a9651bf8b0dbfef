package paint

import (
	"math/rand/v2"
	"slices"
)

// Abstract paints a current of ink or a pattern of tiles.
func Abstract(v Values) Artifact {
	return picture(v.Text("format"), func() *canvas {
		w, h := v.Size()
		c := newCanvas(w, h)
		rnd := rand.New(rand.NewPCG(v.seed(), 5))
		inks := inksFor(v, rnd)
		for i := range c.pix {
			c.pix[i] = inks[0]
		}
		if v.Text("style") == "tiles" {
			paintTiles(c, rnd, inks, float32(v.Number("density")))
		} else {
			paintFlow(c, rnd, inks, float32(v.Number("density")))
		}
		return c
	})
}

// palettes are colours that go well together; the first one is the ground.
var palettes = [][]string{
	{"#f4efe6", "#264653", "#2a9d8f", "#e9c46a", "#f4a261", "#e76f51"},
	{"#0d1b2a", "#e0e1dd", "#778da9", "#ffb703", "#fb8500", "#415a77"},
	{"#fdf6ec", "#1d3557", "#457b9d", "#a8dadc", "#e63946", "#f1b5a0"},
	{"#14120f", "#f2e8cf", "#bc4749", "#a7c957", "#6a994e", "#e8a33d"},
	{"#f7ede2", "#5f0f40", "#9a031e", "#fb8b24", "#e36414", "#0f4c5c"},
	{"#10002b", "#e0aaff", "#9d4edd", "#ff9e80", "#ffd6a5", "#5a189a"},
	{"#eaf4f4", "#22577a", "#38a3a5", "#57cc99", "#80ed99", "#f6bd60"},
	{"#1b1b1e", "#fbfffe", "#faa916", "#96031a", "#6d676e", "#c98b6b"},
}

func inksFor(v Values, rnd *rand.Rand) []rgb {
	names := palettes[rnd.IntN(len(palettes))]
	if given, ok := v["palette"].([]any); ok {
		names = nil
		for _, one := range given {
			name, _ := one.(string)
			names = append(names, name)
		}
	}
	var inks []rgb
	for _, name := range names {
		inks = append(inks, colour(name))
	}
	return inks
}

// current is the field that ink follows: smooth noise, and a few whirls.
type current struct {
	seed   uint32
	scale  float32
	whirls [][4]float32 // x, y, reach, turn
}

func newCurrent(rnd *rand.Rand, aspect float32) current {
	f := current{seed: rnd.Uint32(), scale: 0.8 + 0.9*rnd.Float32()}
	for range 2 + rnd.IntN(3) {
		turn := float32(1.2 + 1.4*rnd.Float64())
		if rnd.IntN(2) == 0 {
			turn = -turn
		}
		f.whirls = append(f.whirls, [4]float32{rnd.Float32() * aspect, rnd.Float32(), 0.18 + 0.25*rnd.Float32(), turn})
	}
	return f
}

// heading is the direction of the current at a place. Directions are added up as vectors: a sum of angles
// would tear where one of them turns full circle.
func (f current) heading(x, y float32) (dx, dy float32) {
	angle := (fractal(x*f.scale, y*f.scale, 2, f.seed) - 0.5) * 7
	dx, dy = cos(angle), sin(angle)
	for _, w := range f.whirls {
		ux, uy := x-w[0], y-w[1]
		d := hypot(ux, uy) + 1e-6
		pull := 2.2 * exp(-d*d/(w[2]*w[2]))
		ux, uy = ux/d, uy/d
		turn, lift := sin(w[3]), cos(w[3])
		dx, dy = dx+pull*(ux*lift-uy*turn), dy+pull*(ux*turn+uy*lift)
	}
	long := hypot(dx, dy) + 1e-6
	return dx / long, dy / long
}

// paintFlow lays brush strokes along the current, wide ones first. A stroke ends where it would touch one
// of its own layer, which keeps the ground breathing. Layers too fine to be seen are left out; they cost the
// most.
func paintFlow(c *canvas, rnd *rand.Rand, inks []rgb, density float32) {
	field := newCurrent(rnd, c.aspect)
	for _, width := range []float32{0.017, 0.0085, 0.0042, 0.002} {
		if width*float32(c.h) < 0.35 {
			break
		}
		taken := newGrid(c.aspect, width*1.15)
		tries := int(density * c.aspect * (0.30 / (width * width)) * 0.06)
		for range tries {
			ink := inks[1+rnd.IntN(len(inks)-1)]
			ink = ink.mix(inks[0], rnd.Float32()*0.18)
			paintStroke(c, field, taken, rnd.Float32()*c.aspect, rnd.Float32(), width*(0.55+0.45*rnd.Float32()), ink)
		}
	}
}

// paintStroke follows the current both ways from a place, then paints the path with tapered ends.
func paintStroke(c *canvas, f current, taken grid, x, y, width float32, ink rgb) {
	if taken.used(x, y) {
		return
	}
	back, ahead := follow(f, taken, x, y, -1), follow(f, taken, x, y, 1)
	slices.Reverse(back)
	path := append(back, ahead...)
	if len(path) < 24 {
		return
	}
	for i, p := range path {
		t := float32(i) / float32(len(path)-1)
		taper := step(0, 0.12, t) * step(1, 0.82, t)
		taken.use(p[0], p[1])
		c.disc(p[0], p[1], width*0.5*taper, ink.mix(rgb{}, 0.10*t), 0.93)
	}
}

const stride = 0.0022

func follow(f current, taken grid, x, y, way float32) (path [][2]float32) {
	for range 170 {
		dx, dy := f.heading(x, y)
		x, y = x+way*stride*dx, y+way*stride*dy
		if taken.used(x, y) {
			return path
		}
		path = append(path, [2]float32{x, y})
	}
	return path
}

// grid remembers where strokes lie, in cells of about their width.
type grid struct {
	cell  float32
	w, h  int
	cells []bool
}

func newGrid(aspect, cell float32) grid {
	w, h := int(aspect/cell)+3, int(1/cell)+3
	return grid{cell: cell, w: w, h: h, cells: make([]bool, w*h)}
}

func (g grid) at(x, y float32) int {
	cx, cy := int(x/g.cell)+1, int(y/g.cell)+1
	if cx < 0 || cy < 0 || cx >= g.w || cy >= g.h || x < -g.cell || y < -g.cell {
		return -1
	}
	return cy*g.w + cx
}

func (g grid) used(x, y float32) bool {
	i := g.at(x, y)
	return i < 0 || g.cells[i]
}

func (g grid) use(x, y float32) {
	if i := g.at(x, y); i >= 0 {
		g.cells[i] = true
	}
}
