package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

func TestMessageTakesABufferOfItsSize(t *testing.T) {
	for _, size := range []int{10, 2_000, 40_000} {
		encoded, err := encoding.GetCodecV2(proto.Name).Marshal(&easelv1.Generation{GenerationId: strings.Repeat("a", size)})
		if err != nil {
			t.Fatal(err)
		}
		for _, buffer := range encoded {
			if data := buffer.ReadOnlyData(); cap(data) > len(data)+len(data)/4 {
				t.Errorf("a message of %d bytes has a buffer of %d", len(data), cap(data))
			}
		}
		encoded.Free()
	}
}
