package cli

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	easelv1 "github.com/easel-grpc/easel/gen/go/easel/v1"
)

const (
	maxOrders = 1000 // of one run
	// maxOrderLine is the longest line that is read, in bytes: no server takes more inputs.
	maxOrderLine = 1 << 20
)

// orderLine is one order of a batch. Its name ends its idempotency key. That of an order from a line is
// made of what the line says and of how often a line has said it, so that it stays the same
// when lines are added, moved or taken out before the rest is picked up.
type orderLine struct {
	number int // of the line
	name   string
	inputs string // one JSON object
}

// readOrders reads one order from each line: a JSON object, or key=value words as a shell has them, which common ones
// come before. Empty lines and those that begin with # are no orders. Nothing is ordered before all lines are read.
func readOrders(from io.Reader, model *easelv1.Model, common []string) ([]orderLine, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxOrderLine)
	var orders []orderLine
	seen := map[string]int{}
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		inputs, err := readOrder(line, model, common)
		if own := (*Problem)(nil); errors.As(err, &own) {
			own.Text = fmt.Sprintf("line %d: %s", number, own.Text)
		}
		if err != nil {
			return nil, err
		}
		seen[line]++
		if orders = append(orders, orderLine{number, nameOf(line, seen[line]), inputs}); len(orders) > maxOrders {
			return nil, badUsage(fmt.Sprintf("more than %d orders", maxOrders), "")
		}
	}
	if err := lines.Err(); err != nil {
		return nil, badUsage("standard input: "+err.Error(), "")
	}
	if len(orders) == 0 {
		return nil, badUsage("there is no order on standard input", `A line is a JSON object of inputs, or words: prompt="a calm sea" seed=7`)
	}
	return orders, nil
}

// nameOf names the nth order of a text.
func nameOf(line string, n int) string {
	sum := sha256.Sum256([]byte(line))
	name := hex.EncodeToString(sum[:8])
	if n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name
}

func readOrder(line string, model *easelv1.Model, common []string) (string, error) {
	if strings.HasPrefix(line, "{") {
		if len(common) > 0 {
			return "", badUsage("a line of JSON has all inputs, so key=value can't stand on the command line", "")
		}
		return objectText([]byte(line), "it")
	}
	words, err := splitWords(line)
	if err != nil {
		return "", badUsage(err.Error(), "")
	}
	return TypedInputs(model, append(common[:len(common):len(common)], words...))
}

// splitWords splits a line at blanks. Quotes of either kind hold a word together, and a
// backslash takes the next letter as it is, except within single quotes.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun, quote, escaped := false, rune(0), false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("a quote or a backslash at the end is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
