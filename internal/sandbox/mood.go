package sandbox

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
		sky:   [4]rgb{hex("#2866ae"), hex("#5b98d2"), hex("#a9d0ea"), hex("#e9f1ee")},
		light: hex("#fff7dc"), lightY: 0.16, far: hex("#93b3d0"), near: hex("#27452f"), mist: hex("#d5e4ec"),
		cloud: [2]rgb{hex("#a9bccf"), hex("#ffffff")}, snow: hex("#f7fafc"), sand: hex("#e3b778"), water: hex("#1d5274"),
		brightness: 0.55, shadowDepth: 1,
	},
	"dawn": {
		sky:   [4]rgb{hex("#4c74ad"), hex("#9a9fce"), hex("#f0b5ab"), hex("#fee9c6")},
		light: hex("#fff2d0"), lightY: 0.50, far: hex("#b9a6c8"), near: hex("#2c3a4e"), mist: hex("#f6d3c4"),
		cloud: [2]rgb{hex("#8f8cb8"), hex("#ffdcc8")}, snow: hex("#ffe9e2"), sand: hex("#e0a488"), water: hex("#48608a"),
		brightness: 0.8, shadowDepth: 0.9,
	},
	"sunset": {
		sky:   [4]rgb{hex("#262c5e"), hex("#7b4a80"), hex("#e67a5a"), hex("#ffcf86")},
		light: hex("#fff1c4"), lightY: 0.52, far: hex("#b26f86"), near: hex("#1d1730"), mist: hex("#f2a173"),
		cloud: [2]rgb{hex("#5c3f6e"), hex("#ffb47c")}, snow: hex("#ffd3c0"), sand: hex("#cf7d52"), water: hex("#3a2a55"),
		brightness: 1, shadowDepth: 0.9,
	},
	"dusk": {
		sky:   [4]rgb{hex("#10183a"), hex("#343a74"), hex("#95608f"), hex("#f3a98c")},
		light: hex("#ffe2c2"), lightY: 0.62, far: hex("#625888"), near: hex("#0f1126"), mist: hex("#a7728f"),
		cloud: [2]rgb{hex("#2b2c58"), hex("#c07f96")}, snow: hex("#c9b4cf"), sand: hex("#7d5768"), water: hex("#1d2148"),
		stars: 0.5, brightness: 0.7, shadowDepth: 0.7,
	},
	"night": {
		sky:   [4]rgb{hex("#040a20"), hex("#0b1c42"), hex("#1c3b68"), hex("#48708f")},
		light: hex("#f6f3e2"), lightY: 0.20, far: hex("#2e4c6e"), near: hex("#050b17"), mist: hex("#35587a"),
		cloud: [2]rgb{hex("#0f2142"), hex("#5d7b9c")}, snow: hex("#9fb6cf"), sand: hex("#3c4864"), water: hex("#081a36"),
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
