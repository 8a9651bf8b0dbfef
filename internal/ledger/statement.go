package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/easel-grpc/easel/internal/gate"
)

// maxStatements is how many statements are kept prepared. Orders and observations need fewer; lists and usage have a
// statement for each choice of filters.
const maxStatements = 100

// pool is a pool of connections. It puts statements into the words of its database, and keeps them prepared where that
// pays: SQLite takes as long to prepare most of them as to carry them out. The driver of PostgreSQL keeps them itself.
type pool struct {
	*sql.DB
	gate      *gate.Gate
	words     *strings.Replacer
	most      int
	pipelined bool // a session is a [pipeline]

	sends, commits operation // of its sessions

	mu     sync.Mutex
	texts  map[string]string    // of statements, in the words of the database
	kept   map[string]*sql.Stmt // nil while it is wanted
	wanted []string             // to be prepared when the connection is free: a transaction may be the one that has it
}

func (d dialect) newPool(db *sql.DB, conns, most int) *pool {
	return &pool{
		DB: db, gate: newGate(conns), words: d.words, most: most, pipelined: d.driver == postgres.driver, sends: d.operation("statements"), commits: d.operation("commit"),
		texts: map[string]string{}, kept: map[string]*sql.Stmt{},
	}
}

// turn waits for the turn of a context, which must be ended, for as long as the context lasts: the time of a turn varies
// too much to tell beforehand that it does not come.
func (p *pool) turn(ctx context.Context) (*gate.Turn, error) {
	asked := turnOf(ctx)
	turn, err := p.gate.Try(asked) //nolint:contextcheck // it does not wait
	if err == nil {
		return turn, nil
	}
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	if turn, err = p.gate.Enter(waiting, asked); err != nil {
		return nil, &Busy{err, p.gate.Estimate(asked)}
	}
	return turn, nil
}

// inWords gives a statement in the words of the database.
func (p *pool) inWords(text string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	words, known := p.texts[text]
	if !known {
		words = p.words.Replace(text)
	}
	if len(p.texts) < maxStatements {
		p.texts[text] = words
	}
	return words
}

// prepare prepares what was wanted. A statement that can't be prepared says why where it is carried out.
func (p *pool) prepare(ctx context.Context) {
	p.mu.Lock()
	wanted := p.wanted
	p.wanted = nil
	p.mu.Unlock()
	for _, text := range wanted {
		prepared, err := p.PrepareContext(ctx, p.words.Replace(text)) //nolint:sqlclosecheck // the pool closes it
		p.mu.Lock()
		if p.kept[text] = prepared; err != nil {
			delete(p.kept, text)
		}
		p.mu.Unlock()
	}
}

// statement gives a statement that is prepared, or else its text in the words of the database.
func (p *pool) statement(text string) (prepared *sql.Stmt, words string) {
	p.mu.Lock()
	prepared, known := p.kept[text]
	if !known && len(p.kept) < p.most {
		p.kept[text], p.wanted = nil, append(p.wanted, text)
	}
	p.mu.Unlock()
	if prepared != nil {
		return prepared, ""
	}
	return nil, p.inWords(text)
}

// clauses collects the conditions of a query, with their arguments in the order in which they stand.
type clauses struct {
	all  []string
	args []any
}

// add adds a condition, in which each %s is an argument.
func (c *clauses) add(condition string, args ...any) {
	names := make([]any, len(args))
	for n := range args {
		names[n] = fmt.Sprintf("$%d", len(c.args)+n+1)
	}
	c.all = append(c.all, fmt.Sprintf(condition, names...))
	c.args = append(c.args, args...)
}

// among adds the condition that a column has one of some values. The last one is repeated up to a power of two: each
// number of values would else be another statement to prepare.
func (c *clauses) among(column string, values []string) {
	var args []any
	for n := 0; n < len(values) || n&(n-1) != 0; n++ {
		args = append(args, values[min(n, len(values)-1)])
	}
	c.add(column+" IN (NULL"+strings.Repeat(", %s", len(args))+")", args...)
}

// String joins them to one condition.
func (c *clauses) String() string { return strings.Join(c.all, " AND ") }

// take joins them by commas, and begins anew behind their arguments.
func (c *clauses) take() string {
	list := strings.Join(c.all, ", ")
	c.all = nil
	return list
}

// asList is a list as a parameter: of texts for {ids} and {in ids}, of numbers for {in times}.
func asList[T any](all []T) string {
	text, _ := json.Marshal(all) // of texts and numbers
	return string(text)
}

// number is how both databases keep a truth.
func number(truth bool) int {
	if truth {
		return 1
	}
	return 0
}

// fromMicros is a time of the book, in which 0 is none.
func fromMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// moment scans a time of the book.
type moment struct{ into *time.Time }

// Scan implements [sql.Scanner].
func (m moment) Scan(value any) error {
	micros, ok := value.(int64)
	if !ok {
		return fmt.Errorf("%v is no time of the book", value)
	}
	*m.into = fromMicros(micros)
	return nil
}

// micros is a time as the book has it.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
