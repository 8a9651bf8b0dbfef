package paint

import (
	"io"
	"math"
	"math/rand/v2"
)

// PaperSize is the size of a print in pixels, at 300 dots an inch.
func PaperSize(paper string) (w, h int) {
	switch paper {
	case "a5":
		return 1748, 2480
	case "a4":
		return 2480, 3508
	case "a3":
		return 3508, 4961
	case "a3-plus":
		return 3900, 5700
	}
	return 1240, 1748
}

// Print draws a poster of flat colours: a low sun over ranges of hills. It is made row by row, and
// a row differs from the one above only where a hill begins, so that 64 MiB cost little more than the
// checksums of the file.
func Print(v Values) Artifact {
	return Artifact{ContentType: "image/png", Write: func(to io.Writer) error {
		w, h := PaperSize(v.Text("paper"))
		out, err := newRawPNG(to, w, h)
		if err != nil {
			return err
		}
		p := newPoster(w, h, v)
		for y := range h {
			if err := out.row(p.row(y)); err != nil {
				return err
			}
		}
		return out.close()
	}}
}

// poster draws its rows from top to bottom.
type poster struct {
	w, h, margin int
	paper        []byte // a row of the frame's colour
	line         []byte // the row at hand
	cover        []int8 // of each column: the nearest hill that has begun, from 1; 0 = sky
	sky          [2]rgb
	sun          rgb
	sunX, sunY   float64
	sunR         float64
	band         int  // of the sky, in the row at hand
	wasSun       bool // the row at hand cuts the sun
	hills        []rgb
	edges        [][]edge // by row
}

func newPoster(w, h int, v Values) *poster {
	rnd := rand.New(rand.NewPCG(v.seed(), 3))
	frame, _ := v["frame"].(Values)
	inks := posterInks[rnd.IntN(len(posterInks))]
	p := &poster{
		w: w, h: h, margin: w * int(frame.Integer("percent")) / 100,
		band: -1,
		line: make([]byte, 3*w), cover: make([]int8, w), edges: make([][]edge, h),
		sky: [2]rgb{colour(inks[0]), colour(inks[1])}, sun: colour(inks[2]),
		sunX: float64(w) * (0.25 + 0.5*rnd.Float64()), sunY: float64(h) * (0.3 + 0.12*rnd.Float64()),
		sunR: float64(w) * (0.12 + 0.08*rnd.Float64()),
	}
	p.paper = fill(make([]byte, 3*w), colour(frame.Text("colour")))
	const ranges = 7
	for i := range ranges {
		t := float64(i) / (ranges - 1)
		p.addHill(colour(inks[3]).mix(colour(inks[4]), float32(t)),
			ridgeTops(rnd, w, float64(h)*(0.48+0.4*t), float64(h)*(0.08-0.04*t)))
	}
	return p
}

// posterInks are sky above, sky below, sun, far hills, near hills.
var posterInks = [][5]string{
	{"#f3d9b1", "#f7b07c", "#e4572e", "#d98f6b", "#2b2d42"},
	{"#bfe0e2", "#f4f1de", "#f2cc8f", "#8fb9a8", "#1f3a3d"},
	{"#2a2a5a", "#d1647a", "#ffd6a5", "#9b5b86", "#1a1633"},
	{"#f6e7cb", "#f4c9b8", "#f28482", "#84a59d", "#334b49"},
	{"#0e2a47", "#3f7d9b", "#f1faee", "#3a6f8f", "#071a2b"},
}

// ridgeTops is a line of hills around a height: a sum of waves, each half as long and half as high.
func ridgeTops(rnd *rand.Rand, w int, y, swing float64) []float32 {
	tops := make([]float32, w)
	length := float64(w) * (0.6 + 0.5*rnd.Float64())
	for range 6 {
		phase := rnd.Float64() * 2 * math.Pi
		for x := range tops {
			tops[x] += float32(swing * math.Sin(2*math.Pi*float64(x)/length+phase))
		}
		length, swing = length*0.47, swing*0.5
	}
	for x := range tops {
		tops[x] += float32(y)
	}
	return tops
}

// row draws the next row. Rows are asked for in order.
func (p *poster) row(y int) []byte {
	if y < p.margin || y >= p.h-p.margin {
		return p.paper
	}
	p.drawSky(y)
	for _, e := range p.edges[y] {
		p.drawEdge(e)
	}
	copy(p.line[:3*p.margin], p.paper)
	copy(p.line[3*(p.w-p.margin):], p.paper)
	return p.line
}

// drawSky fills what no hill covers yet: a band of the graded sky, and the sun on it. Within a band only
// the rows of the sun differ.
func (p *poster) drawSky(y int) {
	const bands = 28
	band := min(int(float64(y)/float64(p.h)/0.6*bands), bands)
	dy := (float64(y) + 0.5 - p.sunY) / p.sunR
	inSun := math.Abs(dy) < 1
	if band == p.band && !inSun && !p.wasSun {
		return
	}
	p.band, p.wasSun = band, inSun
	back := p.sky[0].mix(p.sky[1], float32(band)/bands)
	p.span(0, p.w, back)
	if inSun {
		half := p.sunR * math.Sqrt(1-dy*dy)
		p.span(int(p.sunX-half), int(p.sunX+half), p.sun)
		p.soften(p.sunX-half, back, p.sun)
		p.soften(p.sunX+half, p.sun, back)
	}
}

// soften blends the one pixel of the sky in which an edge lies.
func (p *poster) soften(edge float64, left, right rgb) {
	if x := int(edge); x >= 0 && x < p.w && p.cover[x] == 0 {
		put(p.line, x, right.mix(left, float32(edge-math.Floor(edge))))
	}
}

// span fills the columns from x0 to x1 that are not covered by a hill.
func (p *poster) span(x0, x1 int, c rgb) {
	r, g, b := c.bytes()
	for x := max(x0, 0); x < min(x1, p.w); x++ {
		if p.cover[x] == 0 {
			p.line[3*x], p.line[3*x+1], p.line[3*x+2] = r, g, b
		}
	}
}

// edge is the place where a hill begins in a column: part of the pixel first, the whole of the next.
type edge struct {
	x    int32
	hill int8
	part float32
}

// addHill notes the edges of the next nearer hill.
func (p *poster) addHill(colour rgb, tops []float32) {
	number := int8(len(p.hills))
	p.hills = append(p.hills, colour)
	for x, top := range tops {
		y := min(max(int(top), 0), p.h-2)
		p.edges[y] = append(p.edges[y], edge{x: int32(x), hill: number, part: float32(y+1) - top})
		p.edges[y+1] = append(p.edges[y+1], edge{x: int32(x), hill: number, part: 1})
	}
}

func (p *poster) drawEdge(e edge) {
	x := int(e.x)
	if p.cover[x] > e.hill+1 {
		return // a nearer hill is there already
	}
	old := rgb{float32(p.line[3*x]) / 255, float32(p.line[3*x+1]) / 255, float32(p.line[3*x+2]) / 255}
	put(p.line, x, old.mix(p.hills[e.hill], e.part))
	p.cover[x] = e.hill + 1
}

func put(line []byte, x int, c rgb) { line[3*x], line[3*x+1], line[3*x+2] = c.bytes() }

func fill(line []byte, c rgb) []byte {
	for x := range len(line) / 3 {
		put(line, x, c)
	}
	return line
}
