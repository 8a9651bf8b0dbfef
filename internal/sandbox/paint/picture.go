package paint

import (
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"strings"
)

// picture describes a picture to paint. Its coordinates do not depend on the number of pixels: y increases from 0 at the top
// to 1 at the bottom, and x increases from 0 at the left to the aspect ratio at the right.
type picture struct {
	w, h    int
	block   int                    // side length of a block in pixels; all pixels of a block have the same color
	samples int                    // number of samples per block, both horizontally and vertically
	paint   func(x, y float64) rgb // returns the color at a position
}

// toArtifact returns an artifact whose Write function paints the picture and encodes it in the given format, which is png or
// jpeg.
func (p *picture) toArtifact(format string, compression png.CompressionLevel) Artifact {
	return Artifact{ContentType: "image/" + format, Write: func(w io.Writer) error {
		img := image.NewRGBA(image.Rect(0, 0, p.w, p.h))
		for y := range p.h {
			for x := range p.w {
				left, top := x-x%p.block, y-y%p.block
				c := img.RGBAAt(left, top)
				if left == x && top == y {
					c = p.pixel(x, y)
				}
				img.SetRGBA(x, y, c)
			}
		}
		if format == "jpeg" {
			return jpeg.Encode(w, img, &jpeg.Options{Quality: 92})
		}
		return (&png.Encoder{CompressionLevel: compression}).Encode(w, img)
	}}
}

// pixel returns the color of the block whose top left pixel is at x, y. The color is the mean of the block's samples, with a
// little noise that hides steps in gradients.
func (p *picture) pixel(x, y int) color.RGBA {
	sum, number, grain := rgb{}, float64(p.samples*p.samples), (hash2(x, y, 77)-0.5)/255
	for i := range p.samples * p.samples {
		u, v := (float64(i%p.samples)+0.5)/float64(p.samples), (float64(i/p.samples)+0.5)/float64(p.samples)
		sum = sum.add(p.paint((float64(x)+u*float64(p.block))/float64(p.h), (float64(y)+v*float64(p.block))/float64(p.h)), 1/number)
	}
	level := func(v float64) uint8 { return uint8(min(max(v+grain, 0), 1)*255 + 0.5) }
	return color.RGBA{level(sum.r), level(sum.g), level(sum.b), 255}
}

// rgb is an sRGB color with channels from 0 to 1. Colors are mixed directly, without conversion to linear light.
type rgb struct{ r, g, b float64 }

// parseColors parses valid colors such as #1d3557, separated by spaces.
func parseColors(text string) (all []rgb) {
	for word := range strings.FieldsSeq(text) {
		var r, g, b uint8
		_, _ = fmt.Sscanf(word, "#%02x%02x%02x", &r, &g, &b) // cannot fail, because the color was validated
		all = append(all, rgb{float64(r) / 255, float64(g) / 255, float64(b) / 255})
	}
	return all
}

func (c rgb) mix(d rgb, t float64) rgb {
	return rgb{c.r + (d.r-c.r)*t, c.g + (d.g-c.g)*t, c.b + (d.b-c.b)*t}
}

func (c rgb) add(d rgb, t float64) rgb { return rgb{c.r + d.r*t, c.g + d.g*t, c.b + d.b*t} }

// gradient returns the color at position t of a gradient. The given colors are evenly spaced from t = 0 to t = 1. For a t
// outside this range, gradient returns the first or the last color.
func gradient(colors []rgb, t float64) rgb {
	t = min(max(t, 0), 1) * float64(len(colors)-1)
	n := max(min(int(t), len(colors)-2), 0)
	return colors[n].mix(colors[min(n+1, len(colors)-1)], t-float64(n))
}

// hash2 returns a pseudorandom number from 0 to 1 that depends only on x, y and seed.
func hash2(x, y int, seed uint32) float64 {
	h := uint32(x)*0x85ebca6b ^ uint32(y)*0xc2b2ae35 ^ seed*0x27d4eb2f
	h = (h ^ h>>15) * 0x2c1b3c6d
	h = (h ^ h>>12) * 0x297a2d39
	return float64((h^h>>15)>>8) / (1 << 24)
}

// noise returns value noise from 0 to 1: a random number at each point with integer coordinates, and smooth transitions
// between these points.
func noise(x, y float64, seed uint32) float64 {
	fx, fy := math.Floor(x), math.Floor(y)
	ix, iy, u, v := int(fx), int(fy), easeInOut(x-fx), easeInOut(y-fy)
	top := lerp(hash2(ix, iy, seed), hash2(ix+1, iy, seed), u)
	return lerp(top, lerp(hash2(ix, iy+1, seed), hash2(ix+1, iy+1, seed), u), v)
}

// fractal returns a number from 0 to 1: the weighted mean of the given number of octaves of noise. Each octave has twice the
// frequency and half the weight of the previous octave. If isRidged is true, the noise has sharp crests.
func fractal(x, y float64, octaves int, seed uint32, isRidged bool) float64 {
	sum, weight, total := float64(0), float64(1), float64(0)
	for i := range octaves {
		n := noise(x, y, seed+uint32(i)*101)
		if isRidged {
			n = 1 - math.Abs(2*n-1)
			n *= n
		}
		sum, total, weight = sum+weight*n, total+weight, weight/2
		x, y = 1.6*x-1.2*y+17.3, 1.2*x+1.6*y-9.1 // rotate the coordinates, so that the grid of the next octave does not align with this one
	}
	return sum / total
}

func lerp(a, b, t float64) float64 { return a + (b-a)*t }

// easeInOut maps t, from 0 to 1, to a value that rises from 0 to 1 and has the slope 0 at both ends.
func easeInOut(t float64) float64 { return t * t * (3 - 2*t) }

// smoothStep returns 0 if v equals low, 1 if v equals high, and a smooth transition in between. If v is outside this range,
// smoothStep returns the value of the nearer end. low may be greater than high.
func smoothStep(low, high, v float64) float64 { return easeInOut(min(max((v-low)/(high-low), 0), 1)) }
