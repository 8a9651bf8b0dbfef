package service

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/easel-grpc/easel/internal/rawjson"
)

// maxRecord is the largest record that is answered: with what comes around it no answer is larger than the 4 MiB that
// each gRPC client takes.
const maxRecord = 4<<20 - 32<<10

// room is what is left for a record's members of JSON. They go into its message as they stand on the wire: nobody needs
// them decoded here, and decoded they would take thirty times as much memory.
type room struct {
	left    int
	omitted []string // the fields that had no room
}

// roomIn is the room that is left in a record.
func roomIn(record proto.Message) *room { return &room{left: maxRecord - proto.Size(record)} }

// omit notes a field that is left out.
func (r *room) omit(path string) {
	if !slices.Contains(r.omitted, path) {
		r.omitted = append(r.omitted, path)
	}
}

// add adds a field of a Struct, or of one or more Values. What has no room is left out as a whole.
func (r *room) add(to proto.Message, path string, values ...rawjson.Value) {
	name := protoreflect.Name(path[strings.LastIndexByte(path, '.')+1:])
	field := to.ProtoReflect().Descriptor().Fields().ByName(name)
	isStruct, wire := field.Message().FullName() == (*structpb.Struct)(nil).ProtoReflect().Descriptor().FullName(), []byte(nil)
	for _, v := range values {
		if v == nil {
			continue
		}
		wire = appendField(wire, field.Number(), v, isStruct, r.left)
		if len(wire) > r.left {
			r.omit(path)
			return
		}
	}
	r.left -= len(wire)
	if others := to.ProtoReflect().GetUnknown(); len(others) > 0 {
		wire = slices.Concat(others, wire)
	}
	to.ProtoReflect().SetUnknown(wire)
}

// appendField appends a field with a Struct or a Value. It gives up when the whole is larger than the limit. A list of digits
// grows most: nearly to six times its length.
func appendField(dst []byte, number protowire.Number, v rawjson.Value, isStruct bool, limit int) []byte {
	w := valueWriter{rawjson.NewCursor(v), limit}
	dst = protowire.AppendTag(slices.Grow(dst, min(6*len(v), max(limit, 0))+20), number, protowire.BytesType)
	if isStruct {
		return enclose(dst, w.object)
	}
	return enclose(dst, w.value)
}

// The fields of Value, Struct, ListValue and of the entries of a map, with their types, as they begin on the wire.
const (
	nullValue, numberValue, boolValue   = 1<<3 | byte(protowire.VarintType), 2<<3 | byte(protowire.Fixed64Type), 4<<3 | byte(protowire.VarintType)
	stringValue, structValue, listValue = 3<<3 | byte(protowire.BytesType), 5<<3 | byte(protowire.BytesType), 6<<3 | byte(protowire.BytesType)
	items, name, member                 = 1<<3 | byte(protowire.BytesType), 1<<3 | byte(protowire.BytesType), 2<<3 | byte(protowire.BytesType)
)

// valueWriter writes JSON as Values on the wire.
type valueWriter struct {
	in    *rawjson.Cursor
	limit int // of all that is written, about
}

// value writes what a Value holds.
func (w valueWriter) value(dst []byte) []byte {
	switch w.in.Kind() {
	case '{':
		return enclose(append(dst, structValue), w.object)
	case '[':
		return enclose(append(dst, listValue), w.list)
	case '"':
		return protowire.AppendBytes(append(dst, stringValue), rawjson.Inner(w.in.Token()))
	case 't':
		w.in.Token()
		return append(dst, boolValue, 1)
	case 'f':
		w.in.Token()
		return append(dst, boolValue, 0)
	case 'n':
		w.in.Token()
		return append(dst, nullValue, 0)
	}
	return appendNumberValue(dst, string(w.in.Token()))
}

// object writes what a Struct holds.
func (w valueWriter) object(dst []byte) []byte {
	w.in.Members(func(quoted []byte) bool {
		dst = enclose(append(dst, items), func(dst []byte) []byte {
			return enclose(append(protowire.AppendBytes(append(dst, name), rawjson.Inner(quoted)), member), w.value)
		})
		return len(dst) <= w.limit
	})
	return dst
}

// list writes what a ListValue holds.
func (w valueWriter) list(dst []byte) []byte {
	w.in.Items(func() bool {
		dst = enclose(append(dst, items), w.value)
		return len(dst) <= w.limit
	})
	return dst
}

// enclose writes what is inside of a field with its length before it.
func enclose(dst []byte, inside func([]byte) []byte) []byte {
	start := len(dst)
	dst = inside(append(dst, 0)) // a byte is enough for most lengths
	length := len(dst) - start - 1
	if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
		dst = append(dst, make([]byte, more)...)
		copy(dst[start+1+more:], dst[start+1:])
	}
	protowire.AppendVarint(dst[:start], uint64(length))
	return dst
}

// appendNumberValue writes a number. One that no double holds is kept as text rather than changed.
func appendNumberValue(dst []byte, number string) []byte {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !exact(number, f) {
		return protowire.AppendString(append(dst, stringValue), number)
	}
	return protowire.AppendFixed64(append(dst, numberValue), math.Float64bits(f))
}

// exact reports whether a double can stand for the JSON number that it was read from. A fraction is rounded, as everywhere,
// but not to 0, and not from 2^53 on. An integer beyond that is none that callers rely on.
func exact(number string, f float64) bool {
	switch isInteger := !strings.ContainsAny(number, ".eE"); {
	case f == 0:
		end := strings.IndexAny(number+"e", "eE")
		return !strings.ContainsAny(number[:end], "123456789")
	case math.Abs(f) >= maxExact && !isInteger:
		return decimal(number) == decimal(strconv.FormatFloat(f, 'e', -1, 64))
	case isInteger && len(number) >= 16:
		n, err := strconv.ParseInt(number, 10, 64)
		return err == nil && n >= -maxExact && n <= maxExact
	}
	return true
}

// decimal is a number as its digits, without zeros around them, and the place of the last one.
func decimal(number string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	place, _ := strconv.Atoi(power)
	digits := strings.TrimRight(whole+fraction, "0")
	place += len(whole) - len(digits)
	return strings.TrimLeft(digits, "0") + "e" + strconv.Itoa(place)
}

// decoded is a message with its members of JSON decoded, for those who need them.
func decoded[M proto.Message](m M) M {
	wire, _ := proto.Marshal(m) // its texts are valid
	out, _ := m.ProtoReflect().New().Interface().(M)
	_ = proto.Unmarshal(wire, out)
	return out
}
