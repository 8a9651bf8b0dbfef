package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
)

// querier carries out statements: a pool, or a transaction.
type querier interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// carrier carries out one statement that is prepared.
type carrier interface {
	ExecContext(ctx context.Context, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, args ...any) *sql.Row
}

// maxStatements is how many statements are kept prepared. Orders and observations need fewer; lists and usage have a
// statement for each choice of filters.
const maxStatements = 100

// statements puts statements into the words of a database, and keeps them prepared where that pays: SQLite takes as
// long to prepare most of them as to carry them out. The driver of PostgreSQL keeps them itself.
type statements struct {
	db    *sql.DB
	words *strings.Replacer
	most  int

	mu     sync.Mutex
	kept   map[string]*sql.Stmt // nil while it is wanted
	wanted []string             // to be prepared when the connection is free: a transaction may be the one that has it
}

func newStatements(db *sql.DB, words *strings.Replacer, most int) *statements {
	return &statements{db: db, words: words, most: most, kept: map[string]*sql.Stmt{}}
}

// prepare prepares what was wanted. A statement that can't be prepared says why where it is carried out.
func (s *statements) prepare(ctx context.Context) {
	for _, text := range s.take() {
		prepared, err := s.db.PrepareContext(ctx, s.words.Replace(text)) //nolint:sqlclosecheck // the pool closes it
		s.mu.Lock()
		if s.kept[text] = prepared; err != nil {
			delete(s.kept, text)
		}
		s.mu.Unlock()
	}
}

func (s *statements) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := s.wanted
	s.wanted = nil
	return wanted
}

// of gives a statement that is prepared, or else its text in the words of the database.
func (s *statements) of(text string) (prepared *sql.Stmt, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prepared, known := s.kept[text]
	if prepared != nil {
		return prepared, ""
	}
	if !known && len(s.kept) < s.most {
		s.kept[text], s.wanted = nil, append(s.wanted, text)
	}
	return nil, s.words.Replace(text)
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

func (c *clauses) String() string { return strings.Join(c.all, " AND ") }

// number is how both databases keep a truth.
func number(truth bool) int {
	if truth {
		return 1
	}
	return 0
}
