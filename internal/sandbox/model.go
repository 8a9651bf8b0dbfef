package sandbox

import (
	"math"
	"slices"
	"time"

	"github.com/easel-grpc/easel/internal/sandbox/paint"
)

// model describes a model in the catalog: its inputs, prices, durations and results.
type model struct {
	id, name, description string
	kind                  string // "image" or "text"
	fields                []field
	price                 func(paint.Values) int64 // returns the price for validated inputs, in cents; at least 1
	pace                  durations
	render                func(paint.Values) paint.Artifact
}

// field describes an input of a model.
type field struct {
	name, label, help string
	kind              string // JSON type: string, integer, number, boolean, array or object
	required          bool
	def               any      // default value, or nil
	allowed           []string // allowed strings; nil if every string is allowed
	min, max          *float64 // limits for a number, or for the length of a string or array; nil means no limit
	items             *field   // describes the items of an array; nil for other kinds
	props             []field  // descriptions of the members of an object; nil for other kinds
}

func findModel(id string) (*model, bool) {
	at := slices.IndexFunc(catalog, func(m *model) bool { return m.id == id })
	if at < 0 {
		return nil, false
	}
	return catalog[at], true
}

func bound(v float64) *float64 { return &v }

var (
	promptField = field{
		name: "prompt", label: "Prompt", kind: "string", required: true,
		help: "Description of the render. A prompt that contains [fail] makes the render fail.",
		min:  bound(1), max: bound(4000),
	}
	seedField = field{
		name: "seed", label: "Seed", kind: "integer",
		help: "The same seed and inputs produce the same result. The default is 0.",
		min:  bound(0), max: bound(math.MaxInt64),
	}
	sizeField = field{
		name: "size", label: "Size", kind: "string", def: "1024x640",
		help: "Width and height in pixels.", allowed: []string{"64x40", "320x200", "640x400", "1024x640", "1600x1000"},
	}
	formatField = field{
		name: "format", label: "File format", kind: "string", def: "png",
		help: "PNG is exact, JPEG is smaller.", allowed: []string{"png", "jpeg"},
	}
)

// catalog contains all models.
var catalog = []*model{
	{
		id: "studio/landscape", name: "Landscape", kind: "image",
		description: "Paints the scenery in the prompt, which may contain words such as sea, forest, desert, snow, storm, night or sunset.",
		fields: []field{
			promptField, sizeField,
			{
				name: "quality", label: "Quality", kind: "string", def: "standard", allowed: []string{"draft", "standard", "fine"},
				help: "Fine computes four samples for each pixel.",
			},
			{
				name: "time_of_day", label: "Time of day", kind: "string", def: "auto",
				allowed: []string{"auto", "dawn", "day", "sunset", "dusk", "night"}, help: "Auto follows the prompt.",
			},
			{
				name: "steps", label: "Steps", kind: "integer", def: int64(20), min: bound(1), max: bound(50),
				help: "More steps produce finer clouds and ridges.",
			},
			{
				name: "horizon", label: "Horizon", kind: "number", def: 0.64, min: bound(0.45), max: bound(0.85),
				help: "Height of the horizon, from the top of the picture.",
			},
			{name: "reflections", label: "Reflections", kind: "boolean", def: true, help: "Water mirrors the scene."},
			formatField, seedField,
		},
		price:  func(v paint.Values) int64 { return imagePrice(v, 4, float64(v.Integer("steps"))/20) },
		pace:   durations{median: 9 * time.Second, sigma: 0.35},
		render: paint.Landscape,
	},
	{
		id: "studio/abstract", name: "Abstract", kind: "image",
		description: "Generative art that looks like ink in water.",
		fields: []field{
			promptField, sizeField,
			{
				name: "density", label: "Density", kind: "number", def: 0.6, min: bound(0.1), max: bound(1),
				help: "A higher density means more lines.",
			},
			{
				name: "palette", label: "Palette", kind: "array", help: "Colors such as #1d3557. The first color is the background.",
				min: bound(2), max: bound(8), items: &field{name: "colour", label: "Colour", kind: "string", min: bound(7), max: bound(7)},
			},
			{
				name: "photo", label: "Photo", kind: "string", max: bound(16 << 20),
				help: "Photo as a data URI. It tests large inputs, and does not change the picture.",
			},
			formatField, seedField,
		},
		price:  func(v paint.Values) int64 { return imagePrice(v, 2, v.Number("density")) },
		pace:   durations{median: 3 * time.Second, sigma: 0.25, slow: 16 * time.Second, slowShare: 0.3},
		render: paint.Abstract,
	},
	{
		id: "studio/print", name: "Print", kind: "image",
		description: "A poster with 300 dots per inch, as an uncompressed PNG. The largest file is about 64 MiB.",
		fields: []field{
			promptField,
			{
				name: "paper", label: "Paper", kind: "string", def: "a6", allowed: []string{"a6", "a5", "a4", "a3", "a3-plus"},
				help: "Size of the paper.",
			},
			{name: "frame", label: "Frame", kind: "object", help: "A margin around the poster.", props: []field{
				{name: "percent", label: "Width in percent", kind: "integer", def: int64(6), min: bound(0), max: bound(20)},
				{name: "colour", label: "Colour", kind: "string", def: "#f6f1e5", min: bound(7), max: bound(7)},
			}},
			seedField,
		},
		price:  func(v paint.Values) int64 { w, h := paint.PaperSize(v.Text("paper")); return 10 + int64(w*h)/250_000 },
		pace:   durations{median: 25 * time.Second, sigma: 0.3},
		render: paint.Print,
	},
	{
		id: "studio/haiku", name: "Haiku", kind: "text",
		description: "Three lines of five, seven and five syllables.",
		fields:      []field{promptField, seedField},
		price:       func(paint.Values) int64 { return 1 },
		pace:        durations{median: 1200 * time.Millisecond, sigma: 0.3},
		render:      paint.Haiku,
	},
	{
		id: "studio/essay", name: "Essay", kind: "text",
		description: "An essay about the prompt, with up to 200 paragraphs.",
		fields: []field{
			promptField,
			{
				name: "paragraphs", label: "Paragraphs", kind: "integer", def: int64(3), min: bound(1), max: bound(200),
				help: "Number of paragraphs.",
			},
			{name: "title", label: "Title", kind: "boolean", def: true, help: "Begin with a title."},
			seedField,
		},
		price:  func(v paint.Values) int64 { return 2*v.Integer("paragraphs") + int64(len(v.Text("prompt")))/100 },
		pace:   durations{median: 5 * time.Second, sigma: 0.4},
		render: paint.Essay,
	},
}

// imagePrice returns the price of a picture in cents: a base price, plus an amount that grows with the
// number of pixels, the quality and the effort.
func imagePrice(v paint.Values, base int64, effort float64) int64 {
	w, h := v.Size()
	quality := map[string]float64{"draft": 0.5, "fine": 3}[v.Text("quality")]
	if quality == 0 {
		quality = 1
	}
	return base + int64(math.Ceil(float64(w*h)/100_000*quality*effort))
}
