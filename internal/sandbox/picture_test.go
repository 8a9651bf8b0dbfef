package sandbox_test

import (
	"bytes"
	"fmt"
	"image"
	_ "image/jpeg" // decoders for the models' results
	_ "image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/easel-grpc/easel/internal/sandbox"
)

// drawPicture creates a generation whose result is a file, waits until it has succeeded, and downloads
// the file.
func (sh *account) drawPicture(model, inputs string) reply {
	sh.t.Helper()
	id := sh.create(fmt.Sprintf(`{"modelId":%q,"inputs":%s}`, model, inputs))
	sh.awaitStatus(id, "succeeded")
	return sh.do("GET", "/generations/"+id+"/content", "").want(sh.t, http.StatusOK, "")
}

func TestPicturesHaveTheRequestedSizeAndFormat(t *testing.T) {
	sh := open(t, fastConfig())
	for _, c := range []struct{ model, inputs, format, size string }{
		{"studio/landscape", `{"prompt":"a lake at night","size":"320x200"}`, "png", "(320,200)"},
		{"studio/landscape", `{"prompt":"sea at sunset","size":"320x200","format":"jpeg"}`, "jpeg", "(320,200)"},
		{"studio/landscape", `{"prompt":"desert","size":"320x200","quality":"draft"}`, "png", "(320,200)"},
		{"studio/landscape", `{"prompt":"snow storm","size":"64x40","quality":"fine"}`, "png", "(64,40)"},
		{"studio/landscape", `{"prompt":"forest in a storm","size":"320x200","horizon":0.85}`, "png", "(320,200)"},
		{"studio/landscape", `{"prompt":"aurora","size":"320x200","horizon":0.45,"reflections":false}`, "png", "(320,200)"},
		{"studio/abstract", `{"prompt":"jazz","size":"320x200"}`, "png", "(320,200)"},
		{"studio/abstract", `{"prompt":"jazz","size":"320x200","format":"jpeg"}`, "jpeg", "(320,200)"},
		{"studio/abstract", `{"prompt":"jazz","size":"320x200","palette":["#ffffff","#102030"],"density":1}`, "png", "(320,200)"},
		{"studio/print", `{"prompt":"hills"}`, "png", "(1240,1748)"},
		{"studio/print", `{"prompt":"hills","frame":{"percent":0}}`, "png", "(1240,1748)"},
	} {
		r := sh.drawPicture(c.model, c.inputs)
		img, format, err := image.Decode(bytes.NewReader(r.body))
		if err != nil {
			t.Errorf("%s %s: %v", c.model, c.inputs, err)
			continue
		}
		if format != c.format || img.Bounds().Size().String() != c.size || r.header.Get("Content-Type") != "image/"+format {
			t.Errorf("%s %s: format %s, bounds %v, type %s", c.model, c.inputs, format, img.Bounds(), r.header.Get("Content-Type"))
		}
		if n := countColors(img); n < 40 {
			t.Errorf("%s %s: only %d colors", c.model, c.inputs, n)
		}
	}
}

// countColors returns the number of different colors among the sampled pixels of an image. It compares
// only the five highest bits of red, green and blue.
func countColors(img image.Image) int {
	seen := map[[3]uint32]bool{}
	pace := max(img.Bounds().Dx()/100, 1)
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y += pace {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x += pace {
			r, g, b, _ := img.At(x, y).RGBA()
			seen[[3]uint32{r >> 11, g >> 11, b >> 11}] = true
		}
	}
	return len(seen)
}

func TestIdenticalInputsProduceIdenticalPictures(t *testing.T) {
	sh, other := open(t, fastConfig()), open(t, sandbox.Config{Speed: 2000, Seed: 99})
	for model, inputs := range map[string]string{
		"studio/landscape": `{"prompt":"a lake","size":"64x40"}`,
		"studio/abstract":  `{"prompt":"a lake","size":"64x40"}`,
		"studio/print":     `{"prompt":"a lake"}`,
	} {
		one, two := sh.drawPicture(model, inputs), other.drawPicture(model, inputs)
		if !bytes.Equal(one.body, two.body) || one.header.Get("ETag") != two.header.Get("ETag") {
			t.Errorf("%s returned different results for the same inputs", model)
		}
		for _, change := range []string{`{"prompt":"a lark",`, `{"seed":5,"prompt":"a lake",`} {
			changed := sh.drawPicture(model, strings.Replace(inputs+" ", `{"prompt":"a lake"`, strings.TrimSuffix(change, ","), 1))
			if bytes.Equal(one.body, changed.body) || one.header.Get("ETag") == changed.header.Get("ETag") {
				t.Errorf("%s returned the same result after a change to %s", model, change)
			}
		}
	}
}
