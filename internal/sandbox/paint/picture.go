package paint

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"regexp"
	"strings"
)

// picture is painted row by row while it is encoded, so that one of any size takes little memory. Coordinates for
// paint do not depend on its size: y runs from 0 at the top to 1 at the bottom, x from 0 to the aspect.
type picture struct {
	w, h    int
	block   int // so many pixels wide and high is what is painted at once; 0 = 1
	samples int // of a pixel, across and down; 0 = 1
	paint   func(x, y float32) rgb

	row []color.RGBA
	y   int // of the row, in blocks
}

// ColorModel is that of an [image.Image].
func (p *picture) ColorModel() color.Model { return color.RGBAModel }

// Bounds is its size.
func (p *picture) Bounds() image.Rectangle { return image.Rect(0, 0, p.w, p.h) }

// Opaque says that it needs no alpha channel.
func (p *picture) Opaque() bool { return true }

// At is one pixel. Encoders ask for one row after the other.
func (p *picture) At(x, y int) color.Color {
	block := max(p.block, 1)
	if p.row == nil || p.y != y/block {
		p.row, p.y = p.row[:0], y/block
		for n := range (p.w + block - 1) / block {
			p.row = append(p.row, p.pixel(n*block, p.y*block, float32(block)))
		}
	}
	return &p.row[x/block]
}

// pixel is the mean of its samples. A trace of noise keeps gradients from showing steps.
func (p *picture) pixel(x, y int, block float32) color.RGBA {
	samples, sum, grain := max(p.samples, 1), rgb{}, (hash2(x, y, 77)-0.5)/255
	for i := range samples * samples {
		u, v := (float32(i%samples)+0.5)/float32(samples), (float32(i/samples)+0.5)/float32(samples)
		sum = sum.add(p.paint((float32(x)+u*block)/float32(p.h), (float32(y)+v*block)/float32(p.h)), 1/float32(samples*samples))
	}
	level := func(v float32) uint8 { return uint8(min(max(v+grain, 0), 1)*255 + 0.5) }
	return color.RGBA{level(sum.r), level(sum.g), level(sum.b), 255}
}

// file is the picture in a format. JPEG is encoded by squares, and so from memory.
func (p *picture) file(format string, compression png.CompressionLevel) Artifact {
	return Artifact{ContentType: "image/" + format, Write: func(w io.Writer) error {
		if format == "jpeg" {
			whole := image.NewRGBA(p.Bounds())
			draw.Draw(whole, p.Bounds(), p, image.Point{}, draw.Src)
			return jpeg.Encode(w, whole, &jpeg.Options{Quality: 92})
		}
		return (&png.Encoder{CompressionLevel: compression}).Encode(w, p)
	}}
}

// rgb is an sRGB colour with channels from 0 to 1. It is mixed as it is, without a detour over linear light.
type rgb struct{ r, g, b float32 }

// CheckColour refuses what is no colour such as #1d3557.
func CheckColour(s string) error {
	if !regexp.MustCompile(`^#[0-9a-fA-F]{6}$`).MatchString(s) {
		return fmt.Errorf("not a colour: %q", s)
	}
	return nil
}

// colours are those of a text in the source, or of inputs that have been checked.
func colours(text string) (all []rgb) {
	for word := range strings.FieldsSeq(text) {
		var r, g, b uint8
		_, _ = fmt.Sscanf(word, "#%02x%02x%02x", &r, &g, &b) // none fails that has been checked
		all = append(all, rgb{float32(r) / 255, float32(g) / 255, float32(b) / 255})
	}
	return all
}

func (c rgb) mix(d rgb, t float32) rgb {
	return rgb{c.r + (d.r-c.r)*t, c.g + (d.g-c.g)*t, c.b + (d.b-c.b)*t}
}

func (c rgb) add(d rgb, t float32) rgb { return rgb{c.r + d.r*t, c.g + d.g*t, c.b + d.b*t} }

// gradient is the colour at a place between 0, the first colour, and 1, the last.
func gradient(of []rgb, t float32) rgb {
	t = min(max(t, 0), 1) * float32(len(of)-1)
	n := max(min(int(t), len(of)-2), 0)
	return of[n].mix(of[min(n+1, len(of)-1)], t-float32(n))
}

// hash2 is a number from 0 to 1 that looks random but follows from its arguments.
func hash2(x, y int, seed uint32) float32 {
	h := uint32(x)*0x85ebca6b ^ uint32(y)*0xc2b2ae35 ^ seed*0x27d4eb2f
	h = (h ^ h>>15) * 0x2c1b3c6d
	h = (h ^ h>>12) * 0x297a2d39
	return float32((h^h>>15)>>8) / (1 << 24)
}

// noise is smooth value noise from 0 to 1, one bump a unit.
func noise(x, y float32, seed uint32) float32 {
	fx, fy := floor(x), floor(y)
	ix, iy, u, v := int(fx), int(fy), smooth(x-fx), smooth(y-fy)
	top := lerp(hash2(ix, iy, seed), hash2(ix+1, iy, seed), u)
	return lerp(top, lerp(hash2(ix, iy+1, seed), hash2(ix+1, iy+1, seed), u), v)
}

// fractal adds up octaves of noise, each twice as fine and half as strong. It is about 0 to 1, and ridged it has
// sharp crests.
func fractal(x, y float32, octaves int, seed uint32, ridged bool) float32 {
	sum, weight, total := float32(0), float32(1), float32(0)
	for i := range octaves {
		n := noise(x, y, seed+uint32(i)*101)
		if ridged {
			n = 1 - abs(2*n-1)
			n *= n
		}
		sum, total, weight = sum+weight*n, total+weight, weight/2
		x, y = 1.6*x-1.2*y+17.3, 1.2*x+1.6*y-9.1 // turned, so that the grids of two octaves do not line up
	}
	return sum / total
}

func lerp(a, b, t float32) float32 { return a + (b-a)*t }

// smooth is an ease from 0 to 1.
func smooth(t float32) float32 { return t * t * (3 - 2*t) }

// step rises softly from 0 at low to 1 at high. high may be the lower one.
func step(low, high, v float32) float32 { return smooth(min(max((v-low)/(high-low), 0), 1)) }

func abs(v float32) float32 { return max(v, -v) }

func floor(v float32) float32 { return float32(math.Floor(float64(v))) }

func hypot(x, y float32) float32 { return float32(math.Sqrt(float64(x*x + y*y))) }

func exp(v float32) float32 { return float32(math.Exp(float64(v))) }
