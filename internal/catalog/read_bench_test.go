package catalog

import "testing"

// usual is an answer about a render as the catalog usually gives it.
const usual = `{"id":"gen_8qn1x08zckpva1f6kns7","modelId":"studio/landscape","status":"queued","costCents":28,"createdAt":"2026-11-20T23:35:21.964812563Z",` +
	`"inputs":{"prompt":"a calm sea at dusk with three small boats and a lighthouse","size":"1600x1000","seed":4711},` +
	`"queue":"standard","region":"eu-central","progress":0}`

// BenchmarkReadOne measures what an answer about one render costs once it is there.
func BenchmarkReadOne(b *testing.B) {
	b.Run("scrubber", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newScrubber(testKey)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decode(usual, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	a := answerOf(opGeneration, usual)
	b.Run("record", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := readGeneration(a, "gen_8qn1x08zckpva1f6kns7"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("etag", func(b *testing.B) {
		g, err := readGeneration(a, "gen_8qn1x08zckpva1f6kns7")
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			g.Etag()
		}
	})
	b.Run("credential", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Forwarded(NewSecret(testKey))
		}
	})
}
