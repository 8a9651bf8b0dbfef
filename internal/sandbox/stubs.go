package sandbox

func renderLandscape(v values) (artifact, error) { return gradient(v), nil }
func renderAbstract(v values) (artifact, error)  { return gradient(v), nil }

func gradient(v values) artifact {
	return picture(v.text("format"), func() *canvas {
		c := newCanvas(v.size())
		for i := range c.pix {
			c.pix[i] = hex("#204080").mix(hex("#ffb060"), float32(i/c.w)/float32(c.h))
		}
		return c
	})
}
