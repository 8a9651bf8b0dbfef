package service

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/easel-grpc/easel/internal/catalog"
)

const (
	// maxRecord is the maximum size of a message for one record, in bytes. The complete response must stay below the 4
	// MiB limit of gRPC clients, so 32 KiB are left for everything else.
	maxRecord = 4<<20 - 32<<10
	// maxDecoded is the maximum number of values in a JSON field. A decoded value takes more than a hundred bytes of
	// memory.
	maxDecoded = 100_000
)

// room is the space that remains in a record for its JSON fields.
type room struct {
	left    int      // bytes
	omitted []string // paths of fields that were omitted because they did not fit into the record
}

// roomIn returns the space that remains in a record for its JSON fields.
func roomIn(record proto.Message) *room { return &room{left: maxRecord - proto.Size(record)} }

// addOmitted adds a path to the list of omitted fields, unless the list already contains it.
func (r *room) addOmitted(path string) {
	if !slices.Contains(r.omitted, path) {
		r.omitted = append(r.omitted, path)
	}
}

// convertValues converts the JSON values of a field. If the record has no space for them, convertValues omits the field
// and returns nil.
func (r *room) convertValues(path string, texts ...catalog.Value) (values []*structpb.Value) {
	size := 0
	for _, text := range texts {
		if len(text) == 0 {
			continue
		}
		value := &structpb.Value{}
		if count, _ := measure(text); count <= maxDecoded {
			value = protoValue(catalog.JSON(text))
		}
		if size += proto.Size(value) + fieldCost; size > r.left || value.GetKind() == nil {
			r.addOmitted(path)
			return nil
		}
		values = append(values, value)
	}
	r.left -= size
	return values
}

// convertValue converts the JSON value of a field. It returns nil if there is no value, or if the record has no
// space for it.
func (r *room) convertValue(path string, text catalog.Value) *structpb.Value {
	if values := r.convertValues(path, text); len(values) > 0 {
		return values[0]
	}
	return nil
}

// convertObject converts the JSON object of a field. If there is no object, or if the record has no space for it, object
// returns nil.
func (r *room) convertObject(path string, text catalog.Value) *structpb.Struct {
	return r.convertValue(path, text).GetStructValue()
}

// protoValue converts JSON to a Value. A number that a double can't represent becomes a string, so that it is not
// rounded.
func protoValue(v catalog.JSON) *structpb.Value {
	switch v.Kind() {
	case '{':
		object := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		v.Each(func(m catalog.Member) { object.Fields[m.Name] = protoValue(m.Value) })
		return structpb.NewStructValue(object)
	case '[':
		list := &structpb.ListValue{}
		v.EachItem(func(item catalog.JSON) bool { list.Values = append(list.Values, protoValue(item)); return true })
		return structpb.NewListValue(list)
	case '"':
		text, _ := v.Text() // no copy needed, because the string shares no memory with the catalog's response
		return structpb.NewStringValue(text)
	case 't', 'f':
		return structpb.NewBoolValue(v.Kind() == 't')
	case 'n', 0:
		return structpb.NewNullValue()
	}
	if f, err := strconv.ParseFloat(string(v), 64); err == nil && isExact(string(v), f) {
		return structpb.NewNumberValue(f)
	}
	return structpb.NewStringValue(string(v))
}

// measure returns an upper bound on the number of JSON values in a text, including arrays and objects. It also returns
// the nesting depth. The text may be invalid JSON.
func measure(text []byte) (values, depth int) {
	values = 1
	open, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			values, open = values+1, open+1
			depth = max(depth, open)
		case c == '}' || c == ']':
			open--
		case c == ',':
			values++
		}
	}
	return values, depth
}

// isExact reports whether f, the double nearest to a JSON number, may replace that number. If f is zero, the number
// must be zero. If f is not zero, these rules apply:
//
//   - An integer may be replaced if its magnitude is at most 2^53.
//   - A number with a fraction or an exponent may be replaced if its magnitude is below 2^53, even if f is rounded.
//   - A number with a fraction or an exponent and a magnitude of 2^53 or more may be replaced only if f has exactly
//     the same digits.
func isExact(number string, f float64) bool {
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

// decimal returns a canonical form of the magnitude of a JSON number: its digits without leading and trailing zeros,
// then the letter e, and then the power of ten of the last digit.
func decimal(number string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	place, _ := strconv.Atoi(power)
	digits := strings.TrimRight(whole+fraction, "0")
	place += len(whole) - len(digits)
	return strings.TrimLeft(digits, "0") + "e" + strconv.Itoa(place)
}
