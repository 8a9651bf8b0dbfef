package ledger

import (
	"context"
	"database/sql"
	"strings"
	"sync"
)

// maxKept is the maximum number of statements that a pool caches. There are many different statements, because each combination
// of the filters of a list has its own statement.
const maxKept = 100

// pool is a connection pool that caches each statement after its translation to the SQL dialect of the database. It also caches
// the prepared form of SQLite statements, because most of them take longer to prepare than to execute. The PostgreSQL driver
// caches prepared statements itself.
type pool struct {
	*sql.DB
	words    *strings.Replacer
	prepares bool

	mu     sync.Mutex
	kept   map[string]statement // translated statements, keyed by their text before translation
	wanted []string             // untranslated texts of the statements that [pool.prepareUsed] prepares next
}

// statement is a statement in the dialect of a database. prepared is nil until the statement is prepared.
type statement struct {
	text     string
	prepared *sql.Stmt
}

// prepareUsed prepares the statements that were executed for the first time since its previous call. It must be called
// before a transaction begins: it needs a free connection, and the transaction may use the only one.
func (p *pool) prepareUsed(ctx context.Context) {
	p.mu.Lock()
	wanted := p.wanted
	p.wanted = nil
	p.mu.Unlock()
	for _, text := range wanted {
		words := p.words.Replace(text)
		prepared, err := p.PrepareContext(ctx, words) //nolint:sqlclosecheck // the pool closes the statement
		p.mu.Lock()
		if p.kept[text] = (statement{words, prepared}); err != nil {
			delete(p.kept, text) // the error does not matter, because an invalid statement fails again when it is executed
		}
		p.mu.Unlock()
	}
}

// statement returns a statement in the dialect of the database.
func (p *pool) statement(text string) statement {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.kept[text]
	if known {
		return s
	}
	s.text = p.words.Replace(text)
	if len(p.kept) < maxKept {
		p.kept[text] = s
		if p.prepares {
			p.wanted = append(p.wanted, text)
		}
	}
	return s
}
