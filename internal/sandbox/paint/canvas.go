package paint

import (
	"image"
	"image/jpeg"
	"image/png"
	"io"
)

// canvas is a picture while it is painted. Coordinates for painters do not depend on its size: y runs
// from 0 at the top to 1 at the bottom, x from 0 to aspect.
type canvas struct {
	w, h   int
	aspect float32
	pix    []rgb
}

func newCanvas(w, h int) *canvas {
	return &canvas{w: w, h: h, aspect: float32(w) / float32(h), pix: make([]rgb, w*h)}
}

// blend lays a colour over one pixel.
func (c *canvas) blend(x, y int, with rgb, alpha float32) {
	if alpha <= 0 || x < 0 || y < 0 || x >= c.w || y >= c.h {
		return
	}
	p := &c.pix[y*c.w+x]
	*p = p.mix(with, min(alpha, 1))
}

// disc paints a round dot with a soft edge of one pixel.
func (c *canvas) disc(cx, cy, radius float32, with rgb, alpha float32) {
	size := float32(c.h)
	px, py, pr := cx*size-0.5, cy*size-0.5, radius*size
	for y := int(py - pr - 1); y <= int(py+pr+2); y++ {
		for x := int(px - pr - 1); x <= int(px+pr+2); x++ {
			d := hypot(float32(x)-px, float32(y)-py)
			c.blend(x, y, with, alpha*min(max(pr-d+0.5, 0), 1)*min(pr*2, 1))
		}
	}
}

// halve returns the picture at half its size, each pixel the mean of four.
func (c *canvas) halve() *canvas {
	out := newCanvas(c.w/2, c.h/2)
	for y := range out.h {
		for x := range out.w {
			at := 2*y*c.w + 2*x
			sum := c.pix[at].add(c.pix[at+1], 1).add(c.pix[at+c.w], 1).add(c.pix[at+c.w+1], 1)
			out.pix[y*out.w+x] = sum.scale(0.25)
		}
	}
	return out
}

// image turns the canvas into bytes. A trace of noise keeps wide gradients from showing steps.
func (c *canvas) image() *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, c.w, c.h))
	for i, p := range c.pix {
		grain := (hash2(i%c.w, i/c.w, 77) - 0.5) / 255
		o := img.Pix[4*i : 4*i+4 : 4*i+4]
		o[0], o[1], o[2], o[3] = level(p.r+grain), level(p.g+grain), level(p.b+grain), 255
	}
	return img
}

// picture is the artifact of a painted canvas.
func picture(format string, paint func() *canvas) Artifact {
	if format == "jpeg" {
		return Artifact{ContentType: "image/jpeg", Write: func(w io.Writer) error {
			return jpeg.Encode(w, paint().image(), &jpeg.Options{Quality: 92})
		}}
	}
	return Artifact{ContentType: "image/png", Write: func(w io.Writer) error {
		encoder := png.Encoder{CompressionLevel: png.BestSpeed}
		return encoder.Encode(w, paint().image())
	}}
}
