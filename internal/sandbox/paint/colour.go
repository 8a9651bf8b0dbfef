package paint

import (
	"fmt"
	"math"
)

// rgb is an sRGB colour with channels from 0 to 1. It is mixed as it is, without a detour over linear light.
type rgb struct{ r, g, b float32 }

func parseColour(s string) (rgb, error) {
	var r, g, b uint8
	if len(s) != 7 {
		return rgb{}, fmt.Errorf("not a colour: %q", s)
	}
	if _, err := fmt.Sscanf(s, "#%02x%02x%02x", &r, &g, &b); err != nil {
		return rgb{}, fmt.Errorf("not a colour: %q", s)
	}
	return rgb{float32(r) / 255, float32(g) / 255, float32(b) / 255}, nil
}

// CheckColour refuses what is no colour such as #1d3557.
func CheckColour(s string) error {
	_, err := parseColour(s)
	return err
}

// colour is parseColour for colours in the source.
func colour(s string) rgb {
	c, err := parseColour(s)
	if err != nil {
		panic(err)
	}
	return c
}

func (c rgb) mix(d rgb, t float32) rgb {
	return rgb{c.r + (d.r-c.r)*t, c.g + (d.g-c.g)*t, c.b + (d.b-c.b)*t}
}

func (c rgb) scale(t float32) rgb { return rgb{c.r * t, c.g * t, c.b * t} }

func (c rgb) add(d rgb, t float32) rgb { return rgb{c.r + d.r*t, c.g + d.g*t, c.b + d.b*t} }

func (c rgb) bytes() (r, g, b uint8) { return level(c.r), level(c.g), level(c.b) }

func level(v float32) uint8 { return uint8(math.Min(math.Max(float64(v), 0), 1)*255 + 0.5) }
