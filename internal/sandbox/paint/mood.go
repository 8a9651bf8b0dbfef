package paint

// mood is the light of a scene: the colours of everything at one time of day.
type mood struct {
	sky         [4]rgb // from the zenith to the horizon
	light       rgb    // of the sun or moon
	lightY      float32
	far, near   rgb // of the ranges
	mist        rgb
	cloud       [2]rgb // in shade and in light
	snow, sand  rgb
	water       rgb
	stars       float32
	moon        bool
	brightness  float32 // of the glow around the light
	shadowDepth float32 // contrast of slopes
}

// moods by time of day.
var moods = map[string]mood{
	"day": {
		sky:   [4]rgb{colour("#2866ae"), colour("#5b98d2"), colour("#a9d0ea"), colour("#e9f1ee")},
		light: colour("#fff7dc"), lightY: 0.16, far: colour("#93b3d0"), near: colour("#27452f"), mist: colour("#d5e4ec"),
		cloud: [2]rgb{colour("#a9bccf"), colour("#ffffff")}, snow: colour("#f7fafc"), sand: colour("#e3b778"), water: colour("#1d5274"),
		brightness: 0.55, shadowDepth: 1,
	},
	"dawn": {
		sky:   [4]rgb{colour("#4c74ad"), colour("#9a9fce"), colour("#f0b5ab"), colour("#fee9c6")},
		light: colour("#fff2d0"), lightY: 0.50, far: colour("#b9a6c8"), near: colour("#2c3a4e"), mist: colour("#f6d3c4"),
		cloud: [2]rgb{colour("#8f8cb8"), colour("#ffdcc8")}, snow: colour("#ffe9e2"), sand: colour("#e0a488"), water: colour("#48608a"),
		brightness: 0.8, shadowDepth: 0.9,
	},
	"sunset": {
		sky:   [4]rgb{colour("#262c5e"), colour("#7b4a80"), colour("#e67a5a"), colour("#ffcf86")},
		light: colour("#fff1c4"), lightY: 0.52, far: colour("#b26f86"), near: colour("#1d1730"), mist: colour("#f2a173"),
		cloud: [2]rgb{colour("#5c3f6e"), colour("#ffb47c")}, snow: colour("#ffd3c0"), sand: colour("#cf7d52"), water: colour("#3a2a55"),
		brightness: 1, shadowDepth: 0.9,
	},
	"dusk": {
		sky:   [4]rgb{colour("#10183a"), colour("#343a74"), colour("#95608f"), colour("#f3a98c")},
		light: colour("#ffe2c2"), lightY: 0.62, far: colour("#625888"), near: colour("#0f1126"), mist: colour("#a7728f"),
		cloud: [2]rgb{colour("#2b2c58"), colour("#c07f96")}, snow: colour("#c9b4cf"), sand: colour("#7d5768"), water: colour("#1d2148"),
		stars: 0.5, brightness: 0.7, shadowDepth: 0.7,
	},
	"night": {
		sky:   [4]rgb{colour("#040a20"), colour("#0b1c42"), colour("#1c3b68"), colour("#48708f")},
		light: colour("#f6f3e2"), lightY: 0.20, far: colour("#2e4c6e"), near: colour("#050b17"), mist: colour("#35587a"),
		cloud: [2]rgb{colour("#0f2142"), colour("#5d7b9c")}, snow: colour("#9fb6cf"), sand: colour("#3c4864"), water: colour("#081a36"),
		stars: 1, moon: true, brightness: 0.45, shadowDepth: 0.8,
	},
}

// gloomy is the mood under a stormy sky: darker, greyer, without a visible sun.
func (m mood) gloomy() mood {
	pall := func(c rgb, t float32) rgb {
		grey := c.r*0.3 + c.g*0.5 + c.b*0.2
		return c.mix(rgb{grey * 0.42, grey * 0.48, grey * 0.56}, t)
	}
	for i := range m.sky {
		m.sky[i] = pall(m.sky[i], 0.8-0.15*float32(i))
	}
	m.far, m.near, m.mist = pall(m.far, 0.7), pall(m.near, 0.6), pall(m.mist, 0.65)
	m.cloud = [2]rgb{pall(m.cloud[0], 0.92), pall(m.cloud[1], 0.72)}
	m.snow, m.sand, m.water = pall(m.snow, 0.5), pall(m.sand, 0.6), pall(m.water, 0.7)
	m.brightness *= 0.35
	m.stars = 0
	return m
}
